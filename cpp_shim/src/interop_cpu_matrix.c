/* The CPU device: matrices between memory and the registers of a warp, and where every matrix instruction begins. */
#include <stdlib.h>
#include <string.h>

#include "interop_cpu_matrix.h"

enum { EXECUTION = 11, WARP = INTEROP_CPU_WARP };

/* Memory for the fragments of all warps of a block, once a kernel asks for it. The lane's own column: register r is
 * WARP words further for each r. */
void *INTEROP_SYM(cpu_fragment)(interop_cpu_block *block, const interop_cpu_thread *thread)
{
    enum { OUT_OF_MEMORY = 10 };
    const size_t index = (size_t)(thread - block->threads), warps = (block->thread_count + WARP - 1) / WARP;
    const size_t size = sizeof(interop_cpu_lanes) * INTEROP_CPU_MATRIX_WORDS;
    if (warps > block->fragment_capacity) {
        /* No thread of this block has a column yet: the first that asks gets room for all. */
        free(block->fragments);
        block->fragments = aligned_alloc(64, warps * size);
        block->fragment_capacity = block->fragments != NULL ? (uint32_t)warps : 0;
        if (block->fragments == NULL)
            INTEROP_SYM(cpu_fail)(block, OUT_OF_MEMORY, NULL, "no memory for the matrices of a block");
    }
    return (char *)block->fragments + index / WARP * size + index % WARP * sizeof(uint32_t);
}

/* Whether so many bytes are all in the block's shared memory. */
static bool in_shared(const interop_cpu_block *block, uint64_t address, uint64_t bytes)
{
    return bytes <= block->shared_bytes && address - (uint64_t)(uintptr_t)block->shared <= block->shared_bytes - bytes;
}

/* ---- ldmatrix, stmatrix, movmatrix: blocks of 8 rows of 16 bytes ---- */

static void transpose(interop_cpu_lanes *to, const interop_cpu_lanes *from)
{
    uint16_t in[8][8], out[8][8];
    memcpy(in, from->at, sizeof in);
    for (uint32_t row = 0; row < 8; row++)
        for (uint32_t column = 0; column < 8; column++)
            out[column][row] = in[row][column];
    memcpy(to->at, out, sizeof out);
}

/* The rows that lanes name, as offsets into shared memory; NULL, or why one of them cannot be. */
static const char *row_offsets(const interop_cpu_block *block, const interop_cpu_lanes *addresses, uint32_t count,
                               uint32_t (*offsets)[8])
{
    const uint64_t base = (uint64_t)(uintptr_t)block->shared; /* aligned to 128 bytes */
    const uint32_t low = (uint32_t)base, high = (uint32_t)(base >> 32), bytes = block->shared_bytes;
    const uint32_t limit = bytes - 16;
    uint32_t outside = bytes < 16, odd = 0;
    for (uint32_t m = 0; m < count; m++)
        for (uint32_t row = 0; row < 8; row++) {
            const uint32_t offset = addresses[0].at[8 * m + row] - low;
            /* The high half is the base's, or one more where the low half has passed 2^32. */
            const uint32_t carry = offset > UINT32_MAX - low;
            outside |= (addresses[1].at[8 * m + row] - high) ^ carry;
            outside |= offset > limit;
            odd |= offset;
            offsets[m][row] = offset;
        }
    if (outside)
        return "out of bounds: a row of a matrix lies outside the block's shared memory";
    return odd % 16 != 0 ? "the address of a row is not aligned to 16 bytes" : NULL;
}

/* Lane 8m + i has the address of row i of matrix m. */
static const char *load_rows(const interop_cpu_block *block, uint32_t code, interop_cpu_lanes *words)
{
    const uint32_t count = 1u << interop_cpu_matrix_field(code, INTEROP_CPU_AT_DEPTH, 2);
    uint32_t offsets[4][8];
    const char *problem = row_offsets(block, words + count, count, offsets);
    if (problem != NULL)
        return problem;
    for (uint32_t m = 0; m < count; m++)
        for (uint32_t row = 0; row < 8; row++)
            memcpy(words[m].at + 4 * row, block->shared + offsets[m][row], 16);
    if (code & INTEROP_CPU_A_COLUMNS)
        for (uint32_t m = 0; m < count; m++) {
            const interop_cpu_lanes rows = words[m];
            transpose(&words[m], &rows);
        }
    return NULL;
}

static const char *store_rows(const interop_cpu_block *block, uint32_t code, const interop_cpu_lanes *words)
{
    const uint32_t count = 1u << interop_cpu_matrix_field(code, INTEROP_CPU_AT_DEPTH, 2);
    uint32_t offsets[4][8];
    const char *problem = row_offsets(block, words, count, offsets);
    if (problem != NULL)
        return problem;
    for (uint32_t m = 0; m < count; m++) {
        interop_cpu_lanes rows = words[2 + m];
        if (code & INTEROP_CPU_A_COLUMNS)
            transpose(&rows, &words[2 + m]);
        for (uint32_t row = 0; row < 8; row++)
            memcpy(block->shared + offsets[m][row], rows.at + 4 * row, 16);
    }
    return NULL;
}

/* ---- wmma.load and wmma.store ---- */

static uint32_t bits_of_kind(uint32_t kind)
{
    switch (kind) {
    case INTEROP_CPU_KIND_F16:
    case INTEROP_CPU_KIND_BF16:
        return 16;
    case INTEROP_CPU_KIND_F64:
        return 64;
    case INTEROP_CPU_KIND_INT8:
        return 8;
    case INTEROP_CPU_KIND_INT4:
        return 4;
    case INTEROP_CPU_KIND_B1:
        return 1;
    default:
        return 32;
    }
}

static void copy_element(void *to, const void *from, uint32_t bytes)
{
    switch (bytes) {
    case 1:
        memcpy(to, from, 1);
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    default:
        memcpy(to, from, 8);
        break;
    }
}

/* The matrix in memory: `stride` elements from one row, or column, to the next. */
typedef struct matrix {
    unsigned char *base;
    int64_t stride;
    uint32_t bits;
    bool store;
} matrix;

static void move_element(const matrix *m, int64_t outer, int64_t inner, void *element)
{
    unsigned char *memory = m->base + (outer * m->stride + inner) * (int64_t)(m->bits / 8);
    if (m->store)
        copy_element(memory, element, m->bits / 8);
    else
        copy_element(element, memory, m->bits / 8);
}

/* Loads A or B: register r is a block of 8 rows of A, or columns of B, by 16 bytes along the inner dimension. */
static void load_factor(uint32_t code, const matrix *m, interop_cpu_lanes *words)
{
    const bool is_a = interop_cpu_matrix_field(code, INTEROP_CPU_AT_ROLE, 2) == 0;
    const uint32_t depth = 1u << interop_cpu_matrix_field(code, INTEROP_CPU_AT_DEPTH, 2);
    const uint32_t blocks =
        1u << interop_cpu_matrix_field(code, is_a ? INTEROP_CPU_AT_ROWS : INTEROP_CPU_AT_COLUMNS, 2);
    const uint32_t each = is_a && blocks > 1 ? 2 : 1;
    const bool along = is_a ? !(code & INTEROP_CPU_A_COLUMNS) : !(code & INTEROP_CPU_B_ROWS);
    const uint32_t elements = 128 / m->bits;
    unsigned char *out = (unsigned char *)words;
    for (uint32_t r = 0; r < blocks * depth; r++) {
        const uint32_t inside = r % (each * depth);
        const uint32_t first = (r / (each * depth) * each + inside % each) * 8, inner = inside / each * elements;
        for (uint32_t row = 0; row < 8; row++) {
            unsigned char *to = out + (8 * r + row) * 16;
            if (along) {
                memcpy(to, m->base + ((int64_t)(first + row) * m->stride + inner) * (int64_t)m->bits / 8, 16);
                continue;
            }
            for (uint32_t k = 0; k < elements; k++)
                move_element(m, inner + k, first + row, to + k * m->bits / 8);
        }
    }
}

/* Loads or stores an accumulator: each 8 x 8 block has a row in 4 lanes, two columns a lane. */
static void move_accumulator(uint32_t code, const matrix *m, interop_cpu_lanes *words)
{
    const uint32_t rows = 1u << interop_cpu_matrix_field(code, INTEROP_CPU_AT_ROWS, 2);
    const uint32_t columns = 1u << interop_cpu_matrix_field(code, INTEROP_CPU_AT_COLUMNS, 2);
    const uint32_t each = rows > 1 ? 2 : 1, bytes = m->bits / 8;
    const uint32_t block_bytes = 64 * bytes;
    for (uint32_t block = 0; block < rows * columns; block++) {
        const uint32_t product = block / each;
        const uint32_t first = (product / columns * each + block % each) * 8, left = product % columns * 8;
        unsigned char *at = (unsigned char *)words + block * block_bytes;
        for (uint32_t lane = 0; lane < WARP; lane++)
            for (uint32_t i = 0; i < 2; i++) {
                const uint32_t row = first + lane / 4, column = left + lane % 4 * 2 + i;
                unsigned char *element = at + (bytes == 2 ? 2 * lane + i : i * WARP + lane) * bytes;
                if (code & INTEROP_CPU_A_COLUMNS)
                    move_element(m, column, row, element);
                else
                    move_element(m, row, column, element);
            }
    }
}

/* Matrices of m8n8k4 of f64. */
static void move_doubles(uint32_t code, const matrix *m, interop_cpu_lanes *words)
{
    const uint32_t role = interop_cpu_matrix_field(code, INTEROP_CPU_AT_ROLE, 2);
    const bool by_columns = role == 1 ? !(code & INTEROP_CPU_B_ROWS) : code & INTEROP_CPU_A_COLUMNS;
    for (uint32_t lane = 0; lane < WARP; lane++)
        for (uint32_t i = 0; i < (role == 2 ? 2 : 1); i++) {
            uint32_t row = lane / 4, column = lane % 4;
            if (role == 1) {
                row = lane % 4;
                column = lane / 4;
            } else if (role == 2) {
                column = lane % 4 * 2 + i;
            }
            uint64_t value = interop_cpu_wide(words + 2 * i, lane);
            move_element(m, by_columns ? column : row, by_columns ? row : column, &value);
            if (!m->store)
                interop_cpu_set_wide(words + 2 * i, lane, value);
        }
}

static uint32_t registers_of(uint32_t code, uint32_t bits)
{
    const uint32_t rows = interop_cpu_matrix_field(code, INTEROP_CPU_AT_ROWS, 2);
    const uint32_t columns = interop_cpu_matrix_field(code, INTEROP_CPU_AT_COLUMNS, 2);
    const uint32_t depth = interop_cpu_matrix_field(code, INTEROP_CPU_AT_DEPTH, 2);
    switch (interop_cpu_matrix_field(code, INTEROP_CPU_AT_ROLE, 2)) {
    case 0:
        return (1u << (rows + depth)) * (bits == 64 ? 2 : 1);
    case 1:
        return (1u << (columns + depth)) * (bits == 64 ? 2 : 1);
    default:
        return (1u << (rows + columns)) * bits / 16;
    }
}

/* From the first byte of the matrix in memory to behind its last one. */
static uint64_t bytes_of(uint32_t code, uint32_t bits, uint32_t stride)
{
    const uint32_t role = interop_cpu_matrix_field(code, INTEROP_CPU_AT_ROLE, 2);
    const uint32_t rows = 8u << interop_cpu_matrix_field(code, INTEROP_CPU_AT_ROWS, 2);
    const uint32_t columns = 8u << interop_cpu_matrix_field(code, INTEROP_CPU_AT_COLUMNS, 2);
    const uint32_t inner = bits == 64 ? 4 : (128u << interop_cpu_matrix_field(code, INTEROP_CPU_AT_DEPTH, 2)) / bits;
    const bool turned = role == 1 ? code & INTEROP_CPU_B_ROWS : code & INTEROP_CPU_A_COLUMNS;
    const uint32_t outer = role == 1 ? columns : rows, length = role == 2 ? columns : inner;
    const uint64_t lines = turned ? length : outer, each = turned ? outer : length;
    return ((lines - 1) * stride + each) * bits / 8;
}

static const char *move_matrix(const interop_cpu_block *block, uint32_t code, interop_cpu_lanes *words, bool store)
{
    const uint32_t bits = bits_of_kind(interop_cpu_matrix_field(code, INTEROP_CPU_AT_KIND, 4));
    const interop_cpu_lanes *operands = words + (store ? 0 : registers_of(code, bits));
    const uint64_t address = interop_cpu_wide(operands, 0);
    const uint32_t stride = operands[2].at[0];
    for (uint32_t lane = 1; lane < WARP; lane++)
        if (interop_cpu_wide(operands, lane) != address || operands[2].at[lane] != stride)
            return "the lanes of the warp name different matrices";
    /* Global memory was checked before; a matrix that begins in shared memory must end there. */
    if (in_shared(block, address, 1) && !in_shared(block, address, bytes_of(code, bits, stride)))
        return "out of bounds: a matrix ends behind the block's shared memory";
    const matrix m = {(unsigned char *)(uintptr_t)address, (int64_t)stride, bits, store};
    if (bits == 64)
        move_doubles(code, &m, store ? words + 3 : words);
    else if (interop_cpu_matrix_field(code, INTEROP_CPU_AT_ROLE, 2) == 2)
        move_accumulator(code, &m, store ? words + 3 : words);
    else
        load_factor(code, &m, words);
    return NULL;
}

/* ---- where all begin ---- */

/* Performs a matrix instruction on the fragments of a warp, of which the lanes `members` take part: all, or it is an
 * error. `line`: in the PTX, for errors. */
void INTEROP_SYM(cpu_matrix)(interop_cpu_block *block, uint32_t code, uint32_t line, uint32_t members, void *fragments)
{
    interop_cpu_lanes *words = fragments;
    const char *problem = NULL;
    if (members != UINT32_MAX)
        INTEROP_SYM(cpu_fail)(block, EXECUTION, NULL,
                              "a matrix instruction needs all 32 lanes of the warp, here are the lanes 0x%08X "
                              "(ptx line %u)",
                              members, line);
    switch (interop_cpu_matrix_field(code, 0, 4)) {
    case INTEROP_CPU_MMA:
        INTEROP_SYM(cpu_matrix_multiply)(code, words);
        break;
    case INTEROP_CPU_LDMATRIX:
        problem = load_rows(block, code, words);
        break;
    case INTEROP_CPU_STMATRIX:
        problem = store_rows(block, code, words);
        break;
    case INTEROP_CPU_MOVMATRIX:
        transpose(&words[0], &words[1]);
        break;
    default:
        problem = move_matrix(block, code, words, interop_cpu_matrix_field(code, 0, 4) == INTEROP_CPU_WMMA_STORE);
        break;
    }
    if (problem != NULL)
        INTEROP_SYM(cpu_fail)(block, EXECUTION, NULL, "%s (ptx line %u)", problem, line);
}

/* All lanes of the warp have stored their registers; what comes out goes back the same way. */
void INTEROP_SYM(cpu_perform_matrix)(interop_cpu_block *block, const interop_cpu_thread *warp, uint32_t members)
{
    uint32_t first = 0;
    while (!(members >> first & 1))
        first++;
    for (uint32_t lane = first + 1; lane < INTEROP_CPU_WARP; lane++)
        if ((members >> lane & 1) && (warp[lane].mode != warp[first].mode || warp[lane].site != warp[first].site))
            INTEROP_SYM(cpu_fail)(block, EXECUTION, warp[lane].tid,
                                  "the lanes of a warp stand at different matrix instructions (ptx lines %u and %u)",
                                  warp[first].site, warp[lane].site);
    const size_t index = (size_t)(warp - block->threads) / INTEROP_CPU_WARP;
    INTEROP_SYM(cpu_matrix)(block, warp[first].mode, warp[first].site, members,
                            (interop_cpu_lanes *)block->fragments + index * INTEROP_CPU_MATRIX_WORDS);
}
