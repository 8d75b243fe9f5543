#!/usr/bin/env bash
# Makes the PTX of CUDA C++ that is kept under data/: keep_cuda.sh PYTHON, where PYTHON has cuda-python and NVRTC.
# nvcc is CUDA's, clang++-19 is Debian's package clang-19.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
data=$here/../data
python=$(command -v "$1")
make() {
    local folder=$1
    shift
    rm -rf "${data:?}/$folder"
    (cd "$work" && "$python" make_cuda.py "$data/$folder" "$@")
}
# With -G the text names the source's absolute path.
work=/kernels
rm -rf $work
cp -r "$here" $work

make nvrtc nvrtc -- saxpy stencil matmul reduction histogram softmax scan mma
make nvcc-O3 nvcc -- wmma groups report
make nvcc-O0 nvcc -Xcicc -O0 -- stencil reduction softmax scan bitonic machine queens lists objects bigint mma
make nvcc-G nvcc -G -- saxpy matmul histogram bitonic queens
make clang-O0 clang -O0 -- saxpy matmul scan bitonic machine queens components objects
make clang-O2 clang -O2 -- stencil reduction histogram scan bitonic machine queens lists components objects nbody bigint
rm -rf $work
