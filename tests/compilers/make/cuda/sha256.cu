// SHA-256 of many short messages (at most 55 bytes: one block of the hash), a thread each.
__constant__ unsigned start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
__device__ const unsigned rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__device__ unsigned turn(unsigned x, int by) { return x >> by | x << (32 - by); }

extern "C" __global__ void sha256(const unsigned char *messages, const unsigned char *lengths, unsigned char *digests,
                                  int count, int stride)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    unsigned char block[64] = {};
    const int length = lengths[i];
    for (int k = 0; k < length; k++)
        block[k] = messages[i * stride + k];
    block[length] = 0x80;
    block[62] = length * 8 >> 8;
    block[63] = length * 8;
    unsigned w[64];
    for (int k = 0; k < 16; k++)
        w[k] = block[4 * k] << 24 | block[4 * k + 1] << 16 | block[4 * k + 2] << 8 | block[4 * k + 3];
    for (int k = 16; k < 64; k++) {
        const unsigned a = w[k - 15], b = w[k - 2];
        w[k] = w[k - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[k - 7] + (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    unsigned s[8];
    for (int k = 0; k < 8; k++)
        s[k] = start[k];
    for (int k = 0; k < 64; k++) {
        const unsigned e = s[4], a = s[0];
        const unsigned u =
            s[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & s[5]) ^ (~e & s[6])) + rounds[k] + w[k];
        const unsigned v = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        for (int j = 7; j > 0; j--)
            s[j] = s[j - 1];
        s[4] += u;
        s[0] = u + v;
    }
    for (int k = 0; k < 8; k++) {
        const unsigned word = s[k] + start[k];
        for (int j = 0; j < 4; j++)
            digests[i * 32 + 4 * k + j] = word >> (24 - 8 * j);
    }
}
