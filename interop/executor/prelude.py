"""Functions that translated kernels share, as LLVM IR: half formats and approximate mathematics.

They are IR and not C so that they can be vectorised, and so that every host compiler and every instruction-set level
gives the same bits: nothing here is left to a C compiler's contraction. Approximations are evaluated in double
precision, and are within one unit in the last place of f32; PTX allows more.
"""

from __future__ import annotations

import math
import re
import struct

_HALF = """\
define internal float @interop.half_to_float(i16 %h) alwaysinline {
  %x = zext i16 %h to i32
  %m = and i32 %x, 32767
  %s = shl i32 %m, 13
  %f = bitcast i32 %s to float
  %scaled = fmul float %f, 0x46F0000000000000
  %bits = bitcast float %scaled to i32
  %special = icmp ugt i32 %m, 31743
  %infinite = or i32 %s, 2139095040
  %magnitude = select i1 %special, i32 %infinite, i32 %bits
  %sign = and i32 %x, 32768
  %high = shl i32 %sign, 16
  %r = or i32 %magnitude, %high
  %v = bitcast i32 %r to float
  ret float %v
}
define internal i16 @interop.float_to_half(float %v) alwaysinline {
  %x = bitcast float %v to i32
  %m = and i32 %x, 2147483647
  %f = bitcast i32 %m to float
  %shifted = fadd float %f, 5.000000e-01
  %shifted.bits = bitcast float %shifted to i32
  %subnormal = sub i32 %shifted.bits, 1056964608
  %up = lshr i32 %m, 13
  %odd = and i32 %up, 1
  %rebased = add i32 %m, -939520001
  %rounded = add i32 %rebased, %odd
  %normal = lshr i32 %rounded, 13
  %small = icmp ult i32 %m, 947912704
  %finite = select i1 %small, i32 %subnormal, i32 %normal
  %large = icmp uge i32 %m, 1199570944
  %bounded = select i1 %large, i32 31744, i32 %finite
  %high = lshr i32 %x, 16
  %sign = and i32 %high, 32768
  %signed = or i32 %bounded, %sign
  %nan = fcmp uno float %v, 0.0
  %r = select i1 %nan, i32 32767, i32 %signed
  %t = trunc i32 %r to i16
  ret i16 %t
}
define internal float @interop.bfloat_to_float(i16 %h) alwaysinline {
  %x = zext i16 %h to i32
  %s = shl i32 %x, 16
  %v = bitcast i32 %s to float
  ret float %v
}
define internal i16 @interop.float_to_bfloat(float %v) alwaysinline {
  %x = bitcast float %v to i32
  %up = lshr i32 %x, 16
  %odd = and i32 %up, 1
  %bias = add i32 %odd, 32767
  %sum = add i32 %x, %bias
  %r = lshr i32 %sum, 16
  %nan = fcmp uno float %v, 0.0
  %s = select i1 %nan, i32 32767, i32 %r
  %t = trunc i32 %s to i16
  ret i16 %t
}
define internal float @interop.flush(float %v) alwaysinline {
  %a = call float @llvm.fabs.f32(float %v)
  %small = fcmp olt float %a, 0x3810000000000000
  %zero = call float @llvm.copysign.f32(float 0.0, float %v)
  %r = select i1 %small, float %zero, float %v
  ret float %r
}
"""


def _double(value: float) -> str:
    """A constant of LLVM IR, bit for bit."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _polynomial(variable: str, coefficients: list[float], result: str, type_: str = "double") -> str:
    """Horner's rule with fused multiply-adds; `coefficients` from the constant term upwards."""
    lines = []
    value = _double(coefficients[-1])
    for i, c in enumerate(reversed(coefficients[:-1])):
        name = result if i == len(coefficients) - 2 else f"{result}.{i}"
        operands = ", ".join(f"{type_} {v}" for v in (value, variable, _double(c)))
        lines.append(f"  {name} = call {type_} @llvm.fma.{'f64' if type_ == 'double' else 'f32'}({operands})")
        value = name
    return "\n".join(lines)


_LN2 = math.log(2.0)
_PI_2 = math.pi / 2
_PI_2_LOW = 6.123233995736766e-17  # pi/2 minus its double

# 2^d for a double in [-200, 200]: 2^n by its bits, times the series of 2^r with |r| <= 1/2 (relative error 1e-14).
_EX2D = f"""\
define internal double @interop.ex2d(double %d) alwaysinline {{
  %n = call double @llvm.roundeven.f64(double %d)
  %r = fsub double %d, %n
{_polynomial("%r", [_LN2**k / math.factorial(k) for k in range(12)], "%p")}
  %i = fptosi double %n to i32
  %biased = add i32 %i, 1023
  %wide = zext i32 %biased to i64
  %bits = shl i64 %wide, 52
  %scale = bitcast i64 %bits to double
  %v = fmul double %p, %scale
  ret double %v
}}
"""
# The coefficients of 2^r for |r| <= 1/2: within 1 ulp of f32 when evaluated in f32, and 1 at 0.
_EX2_SERIES = [
    1.0,
    0.6931471824645996,
    0.24022647738456726,
    0.05550329014658928,
    0.009618373587727547,
    0.0013399848248809576,
    0.00015370704932138324,
]
# In f32 all the way, as the instruction is approximate and programs spend their time in it. The power of two comes in
# two factors: the first product is exact, so that subnormal results are rounded once.
_EX2 = f"""\
define internal float @interop.ex2(float %x) alwaysinline {{
  %nan = fcmp uno float %x, 0.0
  %known = select i1 %nan, float 0.0, float %x
  %low = fcmp olt float %known, -1.600000e+02
  %above = select i1 %low, float -1.600000e+02, float %known
  %high = fcmp ogt float %above, 1.600000e+02
  %inside = select i1 %high, float 1.600000e+02, float %above
  %n = call float @llvm.roundeven.f32(float %inside)
  %r = fsub float %inside, %n
{_polynomial("%r", _EX2_SERIES, "%p", "float")}
  %i = fptosi float %n to i32
  %half = ashr i32 %i, 1
  %rest = sub i32 %i, %half
  %half.biased = add i32 %half, 127
  %half.bits = shl i32 %half.biased, 23
  %half.scale = bitcast i32 %half.bits to float
  %rest.biased = add i32 %rest, 127
  %rest.bits = shl i32 %rest.biased, 23
  %rest.scale = bitcast i32 %rest.bits to float
  %q = fmul float %p, %half.scale
  %f = fmul float %q, %rest.scale
  %v = select i1 %nan, float %x, float %f
  ret float %v
}}
"""
# x = 2^e * m with m in [sqrt(1/2), sqrt(2)); log2(m) = 2/ln(2) * atanh((m - 1) / (m + 1)), |argument| < 0.1716.
_LG2 = f"""\
define internal float @interop.lg2(float %x) alwaysinline {{
  %d = fpext float %x to double
  %bits = bitcast double %d to i64
  %offset = sub i64 %bits, 4604544271217802189
  %e = ashr i64 %offset, 52
  %down = shl i64 %e, 52
  %m.bits = sub i64 %bits, %down
  %m = bitcast i64 %m.bits to double
  %above = fadd double %m, 1.0
  %below = fadd double %m, -1.0
  %s = fdiv double %below, %above
  %q = fmul double %s, %s
{_polynomial("%q", [2 / _LN2 / (2 * k + 1) for k in range(9)], "%p")}
  %e.narrow = trunc i64 %e to i32
  %e.float = sitofp i32 %e.narrow to double
  %v = call double @llvm.fma.f64(double %p, double %s, double %e.float)
  %f = fptrunc double %v to float
  %zero = fcmp oeq float %x, 0.0
  %r0 = select i1 %zero, float 0xFFF0000000000000, float %f
  %infinite = fcmp oeq float %x, 0x7FF0000000000000
  %r1 = select i1 %infinite, float %x, float %r0
  %invalid = fcmp ult float %x, 0.0
  %r2 = select i1 %invalid, float 0x7FFFFFFFE0000000, float %r1
  ret float %r2
}}
"""
_SINE = [(-1.0) ** k / math.factorial(2 * k + 1) for k in range(8)]
_COSINE = [(-1.0) ** k / math.factorial(2 * k) for k in range(9)]


def _circular(name: str, quarter: int) -> str:
    """sin or cos: reduced by multiples of pi/2; beyond 2^40 the result is bounded but, as on the hardware, poor."""
    return f"""\
define internal float @interop.{name}(float %x) alwaysinline {{
  %d0 = fpext float %x to double
  %a = call double @llvm.fabs.f64(double %d0)
  %usable = fcmp ole double %a, 0x4270000000000000
  %d = select i1 %usable, double %d0, double 0.0
  %scaled = fmul double %d, {_double(2 / math.pi)}
  %n = call double @llvm.roundeven.f64(double %scaled)
  %minus = fneg double %n
  %r0 = call double @llvm.fma.f64(double %minus, double {_double(_PI_2)}, double %d)
  %r = call double @llvm.fma.f64(double %minus, double {_double(_PI_2_LOW)}, double %r0)
  %q = fmul double %r, %r
{_polynomial("%q", _SINE, "%s")}
  %sine = fmul double %s, %r
{_polynomial("%q", _COSINE, "%cosine")}
  %i = fptosi double %n to i64
  %k = add i64 %i, {quarter}
  %odd = trunc i64 %k to i1
  %v = select i1 %odd, double %cosine, double %sine
  %half = and i64 %k, 2
  %negative = icmp ne i64 %half, 0
  %opposite = fneg double %v
  %w = select i1 %negative, double %opposite, double %v
  %f = fptrunc double %w to float
  %finite = fcmp olt double %a, 0x7FF0000000000000
  %result = select i1 %finite, float %f, float 0x7FFFFFFFE0000000
  ret float %result
}}
"""


_TANH = f"""\
define internal float @interop.tanh(float %x) alwaysinline {{
  %d = fpext float %x to double
  %a0 = call double @llvm.fabs.f64(double %d)
  %far = fcmp ogt double %a0, 2.000000e+01
  %a1 = select i1 %far, double 2.000000e+01, double %a0
  %nan = fcmp uno double %a1, 0.0
  %a = select i1 %nan, double 0.0, double %a1
  %y = fmul double %a, {_double(2 / _LN2)}
  %e = call double @interop.ex2d(double %y)
  %e1 = fadd double %e, 1.0
  %h = fdiv double 2.0, %e1
  %large = fsub double 1.0, %h
  %q = fmul double %a, %a
  %third = call double @llvm.fma.f64(double %q, double {_double(-1 / 3)}, double 1.0)
  %tiny = fmul double %a, %third
  %near = fcmp olt double %a, {_double(2.0**-9)}
  %v = select i1 %near, double %tiny, double %large
  %signed = call double @llvm.copysign.f64(double %v, double %d)
  %f = fptrunc double %signed to float
  %r = select i1 %nan, float %x, float %f
  ret float %r
}}
"""

_DEFINITION = re.compile(r"^define internal \S+ @interop\.(\w+)\(.*?^}\n", re.MULTILINE | re.DOTALL)

FUNCTIONS: dict[str, str] = {
    match[1]: match[0]
    for match in _DEFINITION.finditer(_HALF + _EX2D + _EX2 + _LG2 + _circular("sin", 0) + _circular("cos", 1) + _TANH)
}
"""The text of each function by its name."""

USES: dict[str, list[str]] = {
    name: sorted(set(re.findall(r"call \w+ @interop\.(\w+)\(", text))) for name, text in FUNCTIONS.items()
}
"""Which functions of the prelude each calls."""

_INTRINSICS = {
    "llvm.fabs.f32": "float @llvm.fabs.f32(float)",
    "llvm.fabs.f64": "double @llvm.fabs.f64(double)",
    "llvm.copysign.f32": "float @llvm.copysign.f32(float, float)",
    "llvm.copysign.f64": "double @llvm.copysign.f64(double, double)",
    "llvm.fma.f32": "float @llvm.fma.f32(float, float, float)",
    "llvm.roundeven.f32": "float @llvm.roundeven.f32(float)",
    "llvm.fma.f64": "double @llvm.fma.f64(double, double, double)",
    "llvm.roundeven.f64": "double @llvm.roundeven.f64(double)",
}

DECLARATIONS: dict[str, list[tuple[str, str]]] = {
    name: [(i, f"declare {_INTRINSICS[i]}") for i in sorted(set(re.findall(r"@(llvm\.[\w.]+)\(", text)))]
    for name, text in FUNCTIONS.items()
}
"""The intrinsics that each function calls: name and declaration."""
