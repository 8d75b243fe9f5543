#include "interop_cpu_matrix.h"
bool INTEROP_SYM(cpu_matrix_fast)(const interop_cpu_block_product *product)
{
    (void)product;
    return false;
}
