//! Kernels in Rust, with what the language and its core library bring: slices with checks, iterators, sorting, traits,
//! 128-bit integers, atomics, parsing.
#![no_std]
#![feature(abi_ptx, stdarch_nvptx)]

use core::arch::nvptx::*;
use core::sync::atomic::{AtomicI64, AtomicU32, Ordering};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe { trap() }
}

fn index() -> usize {
    unsafe { (_block_idx_x() * _block_dim_x() + _thread_idx_x()) as usize }
}

/// y <- a x + y; the slices are as long as they say.
#[no_mangle]
pub unsafe extern "ptx-kernel" fn saxpy(x: *const f32, y: *mut f32, n: usize, a: f32) {
    let (x, y) = (core::slice::from_raw_parts(x, n), core::slice::from_raw_parts_mut(y, n));
    let step = (_grid_dim_x() * _block_dim_x()) as usize;
    for i in (index()..n).step_by(step) {
        y[i] += a * x[i];
    }
}

/// Each thread sorts a row of its own, and looks some values up in it.
#[no_mangle]
pub unsafe extern "ptx-kernel" fn sort(data: *mut i64, found: *mut i32, rows: usize, columns: usize, wanted: i64) {
    let i = index();
    if i < rows {
        let row = core::slice::from_raw_parts_mut(data.add(i * columns), columns);
        row.sort_unstable();
        *found.add(i) = match row.binary_search(&wanted) {
            Ok(_) => -1,
            Err(at) => at as i32,
        };
    }
}

/// Numbers from text, and the mistakes in it.
#[no_mangle]
pub unsafe extern "ptx-kernel" fn parse(text: *const u8, ends: *const u32, values: *mut i64, kinds: *mut u8, n: usize) {
    use core::num::IntErrorKind::*;
    let i = index();
    if i >= n {
        return;
    }
    let start = if i == 0 { 0 } else { *ends.add(i - 1) as usize };
    let bytes = core::slice::from_raw_parts(text.add(start), *ends.add(i) as usize - start);
    let (value, kind) = match core::str::from_utf8(bytes) {
        Err(e) => (e.valid_up_to() as i64, 1),
        Ok(s) => match s.trim().parse::<i64>() {
            Ok(v) => (v, 0),
            Err(e) => match e.kind() {
                Empty => (0, 2),
                InvalidDigit => (s.chars().count() as i64, 3),
                PosOverflow => (0, 4),
                NegOverflow => (0, 5),
                _ => (0, 6),
            },
        },
    };
    *values.add(i) = value;
    *kinds.add(i) = kind;
}

trait Shape {
    fn area(&self) -> f64;
    fn name(&self) -> u8 {
        b'?'
    }
}
struct Rectangle(f64, f64);
struct Triangle(f64, f64, f64);
impl Shape for Rectangle {
    fn area(&self) -> f64 {
        self.0 * self.1
    }
    fn name(&self) -> u8 {
        b'r'
    }
}
impl Shape for Triangle {
    fn area(&self) -> f64 {
        0.5 * (self.0 * self.1 + self.2)
    }
}

/// Trait objects.
#[no_mangle]
pub unsafe extern "ptx-kernel" fn shapes(x: *const f64, areas: *mut f64, names: *mut u8, n: usize) {
    let i = index();
    if i < n {
        let v = *x.add(i);
        let (r, t) = (Rectangle(v, 2.0), Triangle(v, 3.0, 1.0));
        let shape: &dyn Shape = if i % 3 == 0 { &t } else { &r };
        *areas.add(i) = core::hint::black_box(shape).area();
        *names.add(i) = shape.name();
    }
}

/// 128-bit integers: products, quotients, remainders, shifts.
#[no_mangle]
pub unsafe extern "ptx-kernel" fn wide(a: *const u64, b: *const u64, out: *mut u64, n: usize) {
    let i = index();
    if i < n {
        let (x, y) = (*a.add(i), *b.add(i));
        let product = x as u128 * y as u128;
        let shifted = product.rotate_left(x as u32 % 128);
        let powers = (x as u128).wrapping_mul(product).wrapping_sub(shifted);
        let results = [product, shifted, powers, product.count_ones() as u128, (product >> (y % 128)) ^ x as u128];
        for (k, r) in results.iter().enumerate() {
            *out.add((i * results.len() + k) * 2) = *r as u64;
            *out.add((i * results.len() + k) * 2 + 1) = (*r >> 64) as u64;
        }
    }
}

/// Counts by remainder, the largest value and a sum that saturates, by atomics.
#[no_mangle]
pub unsafe extern "ptx-kernel" fn count(x: *const u32, n: usize, bins: *const AtomicU32, m: usize, top: *const AtomicI64) {
    let bins = core::slice::from_raw_parts(bins, m);
    let i = index();
    if i < n {
        let v = *x.add(i);
        bins[v as usize % m].fetch_add(1, Ordering::Relaxed);
        (*top).fetch_max(v as i64 - (1 << 31), Ordering::Relaxed);
        let _ = (*top.add(1)).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |t| Some((t + v as i64).min(1 << 40)));
    }
}

/// Reads past the end of a slice where `i` says so: the check of the language stops the kernel.
#[no_mangle]
pub unsafe extern "ptx-kernel" fn beyond(x: *const u32, n: usize, i: usize, out: *mut u32) {
    *out = core::slice::from_raw_parts(x, n)[i];
}
