// The demo's C++ half: reads raw float pixels, runs the three exported kernels, writes the result. No Python anywhere.
//
//   sketch cpu|cuda|best IN OUT WIDTH HEIGHT GAIN GAMMA
//
// prints one line a kernel: its name, the milliseconds that its second launch took, the device.

#include <photo.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

std::vector<float> read_pixels(const std::string &path, std::size_t count)
{
    std::vector<float> pixels(count);
    std::ifstream file(path, std::ios::binary);
    if (!file.read(reinterpret_cast<char *>(pixels.data()), static_cast<std::streamsize>(count * sizeof(float))))
        throw std::runtime_error(path + ": cannot read " + std::to_string(count) + " pixels");
    return pixels;
}

void write_pixels(const std::string &path, const std::vector<float> &pixels)
{
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char *>(pixels.data()),
               static_cast<std::streamsize>(pixels.size() * sizeof(float)));
    if (!file.flush())
        throw std::runtime_error(path + ": cannot write");
}

interop::device device_named(const std::string &name)
{
    if (name == "cpu")
        return interop::device::cpu();
    if (name == "cuda")
        return interop::device::cuda();
    if (name == "best")
        return interop::device::best();
    throw std::runtime_error("the device is cpu, cuda or best, not '" + name + "'");
}

struct timing {
    const char *kernel;
    double milliseconds;
};

// Runs one kernel and waits for it.
template <class Launch>
timing timed(const photo::module &m, const char *kernel, Launch launch)
{
    const auto start = std::chrono::steady_clock::now();
    launch();
    m.synchronize();
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    return {kernel, elapsed.count()};
}

void run(char **arguments)
{
    const std::int32_t width = std::stoi(arguments[4]), height = std::stoi(arguments[5]);
    const float gain = std::stof(arguments[6]), gamma = std::stof(arguments[7]);
    const std::array<std::int64_t, 2> shape{height, width};
    const auto count = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);

    const auto m = photo::load(device_named(arguments[1]));
    const auto src = m.copy_in(read_pixels(arguments[2], count));
    auto smooth = m.empty<float>(count), outline = m.empty<float>(count), dst = m.empty<float>(count);

    const interop::stream stream;
    const auto sketch = [&] {
        return std::array<timing, 3>{
            timed(m, "blur", [&] { m.blur(stream, src, smooth, width, height); }),
            timed(m, "edges", [&] { m.edges(stream, smooth.as_tensor<2>(shape), outline.as_tensor<2>(shape)); }),
            timed(m, "tone", [&] { m.tone(stream, outline, dst, gain, gamma); }),
        };
    };
    sketch(); // a kernel's first launch does more than launch
    for (const timing &t : sketch())
        std::printf("%s %.6f %s\n", t.kernel, t.milliseconds, m.device_name().c_str());
    write_pixels(arguments[3], dst.to_vector());
}

} // namespace

int main(int count, char **arguments)
{
    if (count != 8) {
        std::fprintf(stderr, "usage: %s cpu|cuda|best IN OUT WIDTH HEIGHT GAIN GAMMA\n", arguments[0]);
        return 2;
    }
    try {
        run(arguments);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "sketch: %s\n", error.what());
        return 1;
    }
    return 0;
}
