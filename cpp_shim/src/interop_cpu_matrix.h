/* Matrix instructions of a warp: how the word that describes one is made up, and what the files that perform them
 * share. Not for callers.
 *
 * All fragments of a warp lie side by side, a register at a time: `words[register][lane]`. A register of 64 bits takes
 * two of these rows, the first for the low halves. What the instruction yields comes first, then its
 * operands in the order of the PTX.
 *
 * In nearly all fragments of PTX a register of the warp is a block of 8 rows of matrix A, or 8 columns of matrix B,
 * by 16 bytes along the inner dimension (PTX ISA 9.7.14.5): lane 4 * row + n has bytes 4n ... 4n + 3 of a row. A
 * matrix of several blocks has its registers in the order of rows first, then along the inner dimension.
 */
#ifndef INTEROP_CPU_MATRIX_H
#define INTEROP_CPU_MATRIX_H

#include "interop_cpu_impl.h"

/* Most registers of 32 bits that one instruction takes and yields. */
enum { INTEROP_CPU_MATRIX_WORDS = 32 };

typedef struct interop_cpu_lanes {
    uint32_t at[INTEROP_CPU_WARP];
} interop_cpu_lanes;

/* The fields of the word: interop/executor/fragments.py has the same. */
enum interop_cpu_matrix_operation {
    INTEROP_CPU_MMA,
    INTEROP_CPU_LDMATRIX,
    INTEROP_CPU_STMATRIX,
    INTEROP_CPU_MOVMATRIX,
    INTEROP_CPU_WMMA_LOAD,
    INTEROP_CPU_WMMA_STORE
};
enum interop_cpu_matrix_kind {
    INTEROP_CPU_KIND_F16,
    INTEROP_CPU_KIND_BF16,
    INTEROP_CPU_KIND_TF32,
    INTEROP_CPU_KIND_F64,
    INTEROP_CPU_KIND_INT8,
    INTEROP_CPU_KIND_INT4,
    INTEROP_CPU_KIND_B1,
    INTEROP_CPU_KIND_QUAD, /* mma.m8n8k4 of f16: four products, each of 8 lanes */
    INTEROP_CPU_KIND_WORD  /* accumulators of 32 bits, in memory */
};
enum interop_cpu_matrix_field {
    INTEROP_CPU_AT_KIND = 4,
    INTEROP_CPU_AT_ROWS = 8,     /* log2 of the blocks of 8 rows */
    INTEROP_CPU_AT_COLUMNS = 10, /* log2 of the blocks of 8 columns */
    INTEROP_CPU_AT_DEPTH = 12,   /* log2 of the blocks of 16 bytes along the inner dimension; of the matrices moved */
    INTEROP_CPU_AT_ROLE = 24,    /* which matrix is loaded: 0 A, 1 B, 2 an accumulator */
    INTEROP_CPU_AT_SELECTOR = 26
};
enum interop_cpu_matrix_flag {
    INTEROP_CPU_A_COLUMNS = 1 << 14, /* matrix A, or the matrix in memory, is stored by columns; moved transposed */
    INTEROP_CPU_B_ROWS = 1 << 15,    /* matrix B is stored by rows */
    INTEROP_CPU_A_SIGNED = 1 << 16,
    INTEROP_CPU_B_SIGNED = 1 << 17,
    INTEROP_CPU_SATURATE = 1 << 18,
    INTEROP_CPU_C_HALF = 1 << 19, /* the accumulator read has elements of 16 bits */
    INTEROP_CPU_D_HALF = 1 << 20,
    INTEROP_CPU_BITS_AND = 1 << 21, /* of two bits: and, not exclusive or */
    INTEROP_CPU_SPARSE = 1 << 22
};

static inline uint64_t interop_cpu_wide(const interop_cpu_lanes *rows, uint32_t lane)
{
    return rows[0].at[lane] | (uint64_t)rows[1].at[lane] << 32;
}

static inline void interop_cpu_set_wide(interop_cpu_lanes *rows, uint32_t lane, uint64_t value)
{
    rows[0].at[lane] = (uint32_t)value;
    rows[1].at[lane] = (uint32_t)(value >> 32);
}

static inline uint32_t interop_cpu_matrix_field(uint32_t code, uint32_t at, uint32_t bits)
{
    return code >> at & ((UINT32_C(1) << bits) - 1);
}

/* One block of an mma: 8 or 16 rows, 8 columns. `from` and `sum` have two registers for each 8 rows, and may be the
 * same: accumulators of f32 and what they become. Of integers, `sum` is the exact sum of products alone. */
typedef struct interop_cpu_block_product {
    uint32_t kind;
    uint32_t rows;  /* blocks of 8: 1 or 2 */
    uint32_t depth; /* blocks of 16 bytes along the inner dimension: 1, 2 or 4 */
    bool a_signed, b_signed;
    bool conjunction; /* of bits: and, not exclusive or */
    const interop_cpu_lanes *a, *b, *from;
    interop_cpu_lanes *sum;
} interop_cpu_block_product;

/* Whether this machine has a faster way for these kinds, which then did it. The same bits as the portable one. */
bool INTEROP_SYM(cpu_matrix_fast)(const interop_cpu_block_product *product);
/* mma with its blocks, accumulators and formats. */
void INTEROP_SYM(cpu_matrix_multiply)(uint32_t code, interop_cpu_lanes *words);

#endif
