// A stack machine: each thread runs a program of its own, with jumps.
enum Op : unsigned char { HALT, PUSH, ADD, SUB, MUL, DIV, DUP, SWAP, OVER, DROP, JUMP, BRANCH, LOAD, STORE, LESS, XOR };

extern "C" __global__ void machine(const unsigned char *programs, const int *starts, int *results, int *steps, int n,
                                   int budget)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= n)
        return;
    const unsigned char *code = programs + starts[thread];
    int stack[16], memory[8] = {}, top = 0, at = 0, step = 0;
    memory[0] = thread;
    for (; step < budget; step++) {
        const unsigned char op = code[at++];
        if (op == HALT)
            break;
        int a, b;
        switch (op) {
        case PUSH:
            stack[top++ & 15] = (signed char)code[at++];
            break;
        case ADD:
            b = stack[--top & 15];
            a = stack[--top & 15];
            stack[top++ & 15] = (int)((unsigned)a + (unsigned)b);
            break;
        case SUB:
            b = stack[--top & 15];
            a = stack[--top & 15];
            stack[top++ & 15] = (int)((unsigned)a - (unsigned)b);
            break;
        case MUL:
            b = stack[--top & 15];
            a = stack[--top & 15];
            stack[top++ & 15] = (int)((unsigned)a * (unsigned)b);
            break;
        case DIV:
            b = stack[--top & 15];
            a = stack[--top & 15];
            stack[top++ & 15] = b > 0 ? a / b + a % b : ~a;
            break;
        case DUP:
            a = stack[(top - 1) & 15];
            stack[top++ & 15] = a;
            break;
        case SWAP:
            a = stack[(top - 1) & 15];
            stack[(top - 1) & 15] = stack[(top - 2) & 15];
            stack[(top - 2) & 15] = a;
            break;
        case OVER:
            a = stack[(top - 2) & 15];
            stack[top++ & 15] = a;
            break;
        case DROP:
            top--;
            break;
        case JUMP:
            at = code[at];
            break;
        case BRANCH:
            a = stack[--top & 15];
            at = a != 0 ? code[at] : at + 1;
            break;
        case LOAD:
            stack[top++ & 15] = memory[code[at++] & 7];
            break;
        case STORE:
            memory[code[at++] & 7] = stack[--top & 15];
            break;
        case LESS:
            b = stack[--top & 15];
            a = stack[--top & 15];
            stack[top++ & 15] = a < b;
            break;
        case XOR:
            b = stack[--top & 15];
            a = stack[--top & 15];
            stack[top++ & 15] = a ^ b;
            break;
        default:
            stack[top++ & 15] = -op;
            break;
        }
    }
    results[thread] = stack[(top - 1) & 15];
    steps[thread] = step;
}
