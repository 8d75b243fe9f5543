// A C++ host of the export tests: `host DEVICE CASE`.
#include <mix.hpp>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#if __cplusplus >= 202002L && __has_include(<span>)
#include <span>
#endif

static int run(const mix::module &m)
{
    std::vector<float> x(1000), y(1000);
    for (std::size_t i = 0; i < x.size(); i++) {
        x[i] = 1.0f + 0.25f * static_cast<float>(i);
        y[i] = -3.0f + 0.125f * static_cast<float>(i);
    }
    auto device_x = m.copy_in(x), device_y = m.copy_in(y);
    m.saxpy(interop::stream{}, device_x, device_y, 0.3f);
    m.synchronize();
    device_y.copy_to(y);
    for (const float value : y)
        std::printf("%a\n", static_cast<double>(value));
    return 0;
}

static int fails(const mix::module &m, const std::string &which)
{
    auto x = m.empty<float>(3), y = m.empty<float>(4);
    try {
        if (which == "short_slice")
            m.saxpy({}, x, y, 2.0f);
        else
            m.saxpy({{2, 2, 1}, interop::from_contract}, y, x, 2.0f);
    } catch (const interop::error &error) {
        std::printf("%d %s\n", static_cast<int>(error.status()), error.what());
        return 0;
    }
    return 1;
}

static interop::launch_config config_of(const std::string &which, int zero)
{
    if (which == "two_by_one")
        return {{2, 1}, {256}};
    if (which == "flat_block")
        return {{4}, {32, 8}};
    if (which == "no_blocks")
        return {{zero}, {256}};
    if (which == "no_rows")
        return {{4, zero}, {256}};
    if (which == "no_threads" || which == "no_threads_of_many")
        return {{4}, {zero}};
    return {interop::from_contract, {256}};
}

// An explicit configuration, and what came of it.
static int configured(const mix::module &m, const std::string &which)
{
    const auto x = m.copy_in(std::vector<float>(1000, 1.0f));
    auto y = m.copy_in(std::vector<float>(1000, 1.0f));
    try {
        if (which == "no_threads_of_many")
            m.scale(config_of(which, 0), y, 2.0f);
        else
            m.saxpy(config_of(which, 0), x, y, 1.0f);
        std::printf("0 \n");
    } catch (const interop::error &error) {
        std::printf("%d %s\n", static_cast<int>(error.status()), error.what());
    }
    return 0;
}

// How many elements change with a grid of 3, of 0, and of the contract.
static int coverage(const mix::module &m)
{
    const std::size_t few = 100;
    const interop::launch_config configs[] = {{{3}, {256}}, {{few / 256}, {256}}, {interop::from_contract, {256}}};
    const char *separator = "";
    for (const auto &config : configs) {
        const auto x = m.copy_in(std::vector<float>(1000, 1.0f));
        auto y = m.copy_in(std::vector<float>(1000, 1.0f));
        m.saxpy(config, x, y, 1.0f);
        int changed = 0;
        for (const float value : y.to_vector())
            changed += value != 1.0f;
        std::printf("%s%d", separator, changed);
        separator = " ";
    }
    std::printf("\n");
    return 0;
}

// Everything that converts to a span, and everything that must not.
static int conversions()
{
    std::vector<float> vector(4);
    std::array<float, 4> array{};
    float plain[4] = {};
    const std::vector<float> constant(4);
    const auto count = [](interop::span<const float> s) { return s.size(); };
    const auto writable = [](interop::span<float> s) { return s.size(); };
    std::size_t total = count(vector) + count(array) + count(plain) + count(constant) + count({plain, 2});
    total += writable(vector) + writable(array) + writable(plain);
#if __cplusplus >= 202002L && __has_include(<span>)
    total += count(std::span<float>(vector)) - 4;
#endif
    static_assert(!std::is_convertible<const std::vector<float> &, interop::span<float>>::value, "const is kept");
    static_assert(!std::is_convertible<std::vector<double> &, interop::span<const float>>::value, "types are kept");
    static_assert(!std::is_convertible<interop::span<const float>, interop::span<float>>::value, "const is kept");
    static_assert(std::is_convertible<interop::tensor<int, 2>, interop::tensor<const int, 2>>::value, "views read");
    static_assert(!std::is_copy_constructible<interop::buffer<float>>::value, "memory has one owner");
    std::printf("%zu\n", total);
    return 0;
}

static int transpose(const mix::module &m)
{
    std::vector<std::int32_t> src(6 * 5);
    for (std::size_t i = 0; i < src.size(); i++)
        src[i] = static_cast<std::int32_t>(i);
    const auto from = m.copy_in(src);
    auto to = m.empty<std::int32_t>(src.size());
    m.transpose({}, from.as_tensor<2>({6, 5}), to.as_tensor<2>({5, 6}));
    const auto dst = to.to_vector();
    for (std::size_t row = 0; row < 6; row++)
        for (std::size_t column = 0; column < 5; column++)
            if (dst[column * 6 + row] != src[row * 5 + column])
                return 1;
    const std::int64_t huge = std::int64_t{1} << 32, shapes[][2] = {{7, 6}, {-5, -6}, {huge, huge}, {0, 30}, {-1, 0}};
    for (const auto &shape : shapes) {
        try {
            to.as_tensor<2>({shape[0], shape[1]});
            return 1;
        } catch (const interop::error &error) {
            std::printf("%s\n", error.what());
        }
    }
    m.empty<float>(0).as_tensor<2>({0, 30});
    return 0;
}

// One module, many threads; each must see its own results and its own message.
static int threads(const mix::module &m)
{
    const bool computes = m.device_name().find("Fake") == std::string::npos; // the stand-in for the driver does not
    std::atomic<int> wrong{0};
    std::vector<std::thread> pool;
    for (int t = 0; t < 8; t++)
        pool.emplace_back([&m, &wrong, computes, t] {
            const auto own = mix::load(m.device()); // cold, all at once
            auto y_own = own.copy_in(std::vector<float>(9));
            own.saxpy({}, own.copy_in(std::vector<float>(9)), y_own, 2.0f);
            for (int round = 0; round < 20; round++) {
                const auto x = m.copy_in(std::vector<float>(300, static_cast<float>(t)));
                auto y = m.copy_in(std::vector<float>(300, 1.0f));
                m.saxpy({}, x, y, 2.0f);
                for (const float value : y.to_vector())
                    wrong += computes && value != 2.0f * static_cast<float>(t) + 1.0f;
                const std::size_t length = static_cast<std::size_t>(t);
                try {
                    m.saxpy({}, interop::span<const float>(x.data(), length), y, 2.0f);
                    wrong++;
                } catch (const interop::error &error) {
                    wrong += !std::strstr(error.what(), ("len(x) = " + std::to_string(t) + ",").c_str());
                }
            }
        });
    for (auto &thread : pool)
        thread.join();
    std::printf("%d wrong\n", wrong.load());
    return 0;
}

// A buffer keeps its module loaded; moving leaves an empty one.
static int lifetime(interop::device which)
{
    interop::buffer<float> kept;
    {
        const auto m = mix::load(which);
        kept = m.copy_in(std::vector<float>{1.0f, 2.0f});
    }
    interop::buffer<float> moved = std::move(kept);
    std::printf("%zu %zu %g\n", kept.size(), moved.size(), static_cast<double>(moved.to_vector()[1]));
    return 0;
}

int main(int argc, char **argv)
try {
    const std::string device = argc > 1 ? argv[1] : "best", which = argc > 2 ? argv[2] : "run";
    const interop::device chosen = device == "cpu"    ? interop::device::cpu()
                                   : device == "cuda" ? interop::device::cuda()
                                                      : interop::device::best();
    if (which == "conversions")
        return conversions();
    if (which == "lifetime")
        return lifetime(chosen);
    const auto m = mix::load(chosen);
    if (which == "run")
        return run(m);
    if (which == "transpose")
        return transpose(m);
    if (which == "threads")
        return threads(m);
    if (which == "coverage")
        return coverage(m);
    if (which == "short_slice" || which == "two_dimensional")
        return fails(m, which);
    return configured(m, which);
} catch (const interop::error &error) {
    std::printf("load: %s\n", error.what());
    return 3;
}
