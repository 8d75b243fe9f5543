#!/usr/bin/env bash
# Makes the PTX of kernels.rs that is kept under data/rust. rustc and the source of `core` are Debian's packages rustc-web
# and rust-web-src (1.85.0); a rustup toolchain has `core` for this target: `rustup target add nvptx64-nvidia-cuda`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
level=${1:-3}
out=${2:-$here/../data/rust}
export RUSTC_BOOTSTRAP=1 # names the features of nightly releases
rustc=/usr/bin/rustc
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
common=(--target nvptx64-nvidia-cuda -C target-cpu=sm_80 --edition 2021)
library=(-O --crate-type rlib --out-dir "$work" -L "$work" --cap-lints allow -Zforce-unstable-if-unmarked)
echo '#![feature(compiler_builtins)] #![no_std] #![compiler_builtins]' >"$work/compiler_builtins.rs"
"$rustc" "${common[@]}" "${library[@]}" --crate-name core /usr/src/rustc-1.85.0/library/core/src/lib.rs
"$rustc" "${common[@]}" "${library[@]}" --crate-name compiler_builtins "$work/compiler_builtins.rs"
mkdir -p "$out"
"$rustc" "${common[@]}" --crate-type cdylib -C lto=fat -C opt-level="$level" -C panic=abort -C linker=/bin/true \
    --emit=asm -L "$work" "$here/kernels.rs" -o "$out/kernels.ptx"
{
    echo "{\"tool\": \"$("$rustc" --version)\", \"options\": [\"-C\", \"opt-level=$level\"],"
    sed -n 's/^\.visible \.entry \(\w*\)($/"\1": {"symbol": "\1", "file": "kernels"},/p' "$out/kernels.ptx" | sed '$s/,$/}/'
} >"$out/launch.json"
