// What interop::launch_config makes of what people write: "grid block shared stream" of each, as the C functions see
// it.
#include <interop/interop.hpp>

#include <cstdio>
#include <string>
#include <type_traits>

namespace
{

struct cuda_dim3 { // what CUDA's own looks like
    unsigned x, y, z;
};

std::string text(const ::interop_dim3 *d)
{
    return d ? std::to_string(d->x) + "," + std::to_string(d->y) + "," + std::to_string(d->z) : "contract";
}

// The shape of a generated member function.
void k(const interop::launch_config &config, float)
{
    const ::interop_launch_config c = config;
    std::printf("%s %s %u %s%s\n", text(c.grid).c_str(), text(c.block).c_str(), c.shared_bytes,
                c.stream ? "stream" : "default", c.exact ? "" : " not exact");
}

template <class N>
void refused(N n)
{
    for (const bool shared : {false, true}) {
        try {
            shared ? k({{1}, {1}, n}, 0) : k({{n}, {1}}, 0);
            std::printf("not refused\n");
        } catch (const interop::error &error) {
            std::printf("%d %s\n", static_cast<int>(error.status()), error.what());
        }
    }
}

static_assert(interop::dim3(3) == interop::dim3(3, 1, 1) && interop::dim3() == interop::dim3(1), "ones by default");
static_assert(interop::dim3(::interop_dim3{4, 0, 0}) == interop::dim3(4), "C's zeros at the end are ones");
static_assert(interop::dim3(::interop_dim3{4, 0, 2}) != interop::dim3(4, 1, 2), "others are zeros");
static_assert(!std::is_constructible<interop::dim3, double>::value, "a float is no dimension");
static_assert(!std::is_constructible<interop::dim3, bool>::value, "nor is a truth value");
static_assert(!std::is_constructible<interop::dim3, int, int, int, int>::value, "there are three");
static_assert(std::is_convertible<const interop::launch_config &, ::interop_launch_config>::value, "it points into it");
static_assert(!std::is_convertible<interop::launch_config, ::interop_launch_config>::value, "not into a temporary");

} // namespace

int main()
{
    const int few = 7;
    const std::size_t many = 100;
    int memory = 0;
    const auto handle = reinterpret_cast<::interop_stream>(&memory); // nobody looks into a stream here
    k({{2, 1}, {4}}, 0);
    k({4, 256}, 0);
    k({{few / 256}, {256}}, 0);
    k({{4, few / 8}, {256, 1, 1}}, 0);
    k({{many}, {few, 3u, 1}, 4 * few}, 0);
    k({{}, {128}}, 0);
    k({interop::from_contract, {128}, 0, handle}, 0);
    k({{2}, interop::from_contract}, 0);
    k({interop::dim3(2), interop::dim3{3, 4}}, 0);
    k({::interop_dim3{4, 0, 0}, {}}, 0);
    k({}, 0);
    k(nullptr, 0);
    k(handle, 0);
    k(interop::stream(handle), 0);
    k({interop::from_contract, interop::from_contract, 64}, 0);
    interop::launch_config later;
    later.block = {32, 8};
    later.grid = 5;
    k(later, 0);
    later.grid = {};
    k(later, 0);
    const cuda_dim3 theirs{1, 2, 3};
    k({{theirs.x, theirs.y, theirs.z}, {1}}, 0);
    refused(few - 8);
    refused(5000000000);
}
