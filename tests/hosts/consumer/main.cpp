#include <mix.hpp>

#include <cstdio>
#include <vector>

int main()
{
    const auto m = mix::load(interop::device::cpu());
    std::vector<float> hx(1000, 1.0f), hy(1000, 3.0f);
    auto x = m.copy_in(hx), y = m.copy_in(hy);
    m.saxpy(interop::stream{}, x, y, 2.0f);
    y.copy_to(hy);
    std::printf("%g %s\n", static_cast<double>(hy[999]), MIX_VERSION);
}
