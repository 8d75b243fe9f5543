// What the C++ interfaces of all exported folders share: devices, streams, spans, tensors, buffers, errors. C++17.
#ifndef INTEROP_INTEROP_HPP
#define INTEROP_INTEROP_HPP
#define INTEROP_HPP_VERSION 1

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "types.h"

namespace interop
{
inline namespace v1
{

using f16 = ::interop_f16;
using bf16 = ::interop_bf16;

/// A failed call: what() has the library's words, status() the number that all languages share.
class error : public std::runtime_error
{
public:
    error(::interop_status status, const std::string &message) : std::runtime_error(message), status_(status) {}

    ::interop_status status() const noexcept { return status_; }

private:
    ::interop_status status_;
};

/// Where kernels run.
class device
{
public:
    device(::interop_device value) noexcept : value_(value) {}

    /// CUDA where the machine has a usable GPU, else the CPU.
    static device best() noexcept { return ::interop_device_best(); }
    static device cpu() noexcept { return ::interop_device_cpu(); }
    static device cuda(std::int32_t ordinal = 0) noexcept { return ::interop_device_cuda(ordinal); }

    bool is_cpu() const noexcept { return value_.kind == INTEROP_DEVICE_CPU; }
    bool is_cuda() const noexcept { return value_.kind == INTEROP_DEVICE_CUDA; }
    std::int32_t ordinal() const noexcept { return value_.ordinal; }
    operator ::interop_device() const noexcept { return value_; }

    friend bool operator==(const device &a, const device &b) noexcept
    {
        return a.value_.kind == b.value_.kind && a.value_.ordinal == b.value_.ordinal;
    }
    friend bool operator!=(const device &a, const device &b) noexcept { return !(a == b); }

private:
    ::interop_device value_;
};

/// The caller's stream, not owned: a CUstream or cudaStream_t passes as it is. The default one is the driver's.
class stream
{
public:
    stream() noexcept = default;
    stream(::interop_stream handle) noexcept : handle_(handle) {}

    operator ::interop_stream() const noexcept { return handle_; }

private:
    ::interop_stream handle_ = nullptr;
};

namespace detail
{
template <class... N>
using integers = std::enable_if_t<
    std::conjunction<std::bool_constant<(std::is_integral<N>::value && !std::is_same<N, bool>::value)>...>::value>;

/// `n` as a number of a launch; throws where it does not fit, with `what` it is.
template <class N>
constexpr std::uint32_t launch_number(N n, const char *what)
{
    if (n < N{} || static_cast<std::uintmax_t>(n) > UINT32_MAX)
        throw error(INTEROP_ERROR_ARGUMENT_RANGE,
                    std::string(what) + " is " + std::to_string(n) + "; it must be 0 to 4294967295");
    return static_cast<std::uint32_t>(n);
}
} // namespace detail

/// The dimensions of a grid or block, as in CUDA: dim3(4) is 4 x 1 x 1. Any integers do; one that does not fit throws.
class dim3
{
public:
    std::uint32_t x = 1, y = 1, z = 1;

    constexpr dim3() noexcept = default;
    template <class X, class Y = std::uint32_t, class Z = std::uint32_t, class = detail::integers<X, Y, Z>>
    constexpr dim3(X nx, Y ny = 1, Z nz = 1) : x(checked(nx)), y(checked(ny)), z(checked(nz))
    {
    }
    /// From C, where {4} leaves zeros behind it: those count as ones.
    constexpr dim3(const ::interop_dim3 &d) noexcept : x(d.x), y(d.y || d.z ? d.y : 1), z(d.z ? d.z : 1) {}

    friend constexpr bool operator==(const dim3 &a, const dim3 &b) noexcept
    {
        return a.x == b.x && a.y == b.y && a.z == b.z;
    }
    friend constexpr bool operator!=(const dim3 &a, const dim3 &b) noexcept { return !(a == b); }

private:
    template <class N>
    static constexpr std::uint32_t checked(N n)
    {
        return detail::launch_number(n, "a dimension of a grid or block");
    }
};

/// In the place of a grid or block: it follows from the kernel's contract.
enum class contract { decides };
inline constexpr contract from_contract = contract::decides;

/// A grid or block that is given, or else follows from the kernel's contract.
class launch_dims
{
public:
    launch_dims(contract = from_contract) noexcept {}
    /// What a dim3 is made of: launch_dims(4), launch_dims(4, 2), launch_dims(dim3).
    template <class... D, class = std::enable_if_t<(sizeof...(D) > 0) && std::is_constructible<dim3, D...>::value>>
    launch_dims(D... dims) : launch_dims(dim3(dims...), 0)
    {
    }

    bool given() const noexcept { return given_; }
    /// For the functions of C; null where it follows from the contract. Lives as long as this object.
    const ::interop_dim3 *get() const & noexcept { return given_ ? &value_ : nullptr; }
    const ::interop_dim3 *get() const && = delete;

private:
    launch_dims(const dim3 &dims, int) noexcept : given_(true), value_{dims.x, dims.y, dims.z} {}

    bool given_ = false;
    ::interop_dim3 value_{0, 0, 0};
};

/// How to launch: `m.k({{4, 2}, {32, 8}}, ...)` gives grid and block, `m.k(stream, ...)` takes both from the kernel's
/// contract, as does interop::from_contract for one of them: `m.k({interop::from_contract, {128}}, ...)`.
struct launch_config {
    launch_dims grid;
    launch_dims block;
    std::uint32_t shared_bytes = 0; ///< dynamic shared memory of a block; 0: from the contract
    interop::stream stream;

    launch_config() noexcept = default;
    launch_config(interop::stream on) noexcept : stream(on) {}
    launch_config(::interop_stream on) noexcept : stream(on) {}
    template <class S = std::uint32_t, class = detail::integers<S>>
    launch_config(launch_dims grid_, launch_dims block_, S shared_bytes_ = 0, interop::stream on = {})
        : grid(grid_), block(block_), shared_bytes(detail::launch_number(shared_bytes_, "dynamic shared memory")),
          stream(on)
    {
    }

    /// For the functions of C; points into this object, which must live as long.
    operator ::interop_launch_config() const & noexcept
    {
        return {grid.get(), block.get(), shared_bytes, stream, true};
    }
    operator ::interop_launch_config() const && = delete;
};

/// A contiguous run of elements on the module's device; not owned. Vectors, arrays, buffers and std::span convert.
template <class T>
class span
{
    template <class C>
    using data_of = decltype(std::declval<C &>().data());
    template <class C>
    using fits = std::enable_if_t<std::is_convertible<std::remove_pointer_t<data_of<C>> (*)[], T (*)[]>::value &&
                                  std::is_convertible<decltype(std::declval<C &>().size()), std::size_t>::value>;

public:
    using element_type = T;

    span() noexcept = default;
    span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <std::size_t N>
    span(T (&array)[N]) noexcept : data_(array), size_(N)
    {
    }
    template <class C, class = fits<C>>
    span(C &container) noexcept : data_(container.data()), size_(container.size())
    {
    }
    template <class C, class = fits<const C>, class = std::enable_if_t<std::is_const<T>::value, C>>
    span(const C &container) noexcept : data_(container.data()), size_(container.size())
    {
    }

    T *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/// A strided array of rank N on the module's device; not owned. Strides count elements; left out, rows are contiguous.
template <class T, std::size_t N>
class tensor
{
public:
    using extents = std::array<std::int64_t, N>;

    tensor(T *data, const extents &shape) noexcept : data_(data), shape_(shape), strides_(contiguous(shape)) {}
    tensor(T *data, const extents &shape, const extents &strides) noexcept
        : data_(data), shape_(shape), strides_(strides)
    {
    }
    /// A tensor over all of a span; throws interop::error when the sizes differ.
    tensor(span<T> elements, const extents &shape) : tensor(elements.data(), shape)
    {
        std::string text;
        for (std::size_t axis = 0; axis < N; axis++)
            text += (axis ? " x " : "") + std::to_string(shape[axis]);
        if (!covers(shape, elements.size()))
            throw error(INTEROP_ERROR_ARGUMENT_RANGE,
                        "a tensor of " + text + " elements over a span of " + std::to_string(elements.size()));
    }
    /// A view for reading.
    template <class U, class = std::enable_if_t<std::is_same<const U, T>::value && !std::is_same<U, T>::value>>
    tensor(const tensor<U, N> &other) noexcept : data_(other.data()), shape_(other.shape()), strides_(other.strides())
    {
    }

    T *data() const noexcept { return data_; }
    const extents &shape() const noexcept { return shape_; }
    const extents &strides() const noexcept { return strides_; }
    std::int64_t shape(std::size_t axis) const noexcept { return shape_[axis]; }
    std::int64_t stride(std::size_t axis) const noexcept { return strides_[axis]; }

private:
    /// Whether the extents are sizes whose product is `size`.
    static bool covers(const extents &shape, std::size_t size) noexcept
    {
        std::uint64_t count = 1;
        bool empty = false;
        for (const std::int64_t extent : shape) {
            if (extent < 0)
                return false;
            empty = empty || extent == 0;
        }
        for (std::size_t axis = 0; axis < N && !empty; axis++) {
            const auto extent = static_cast<std::uint64_t>(shape[axis]);
            if (extent > size / count) // so that the product cannot overflow
                return false;
            count *= extent;
        }
        return (empty ? 0 : count) == size;
    }

    static extents contiguous(const extents &shape) noexcept
    {
        extents strides{};
        std::uint64_t stride = 1; // unsigned, so that a nonsensical shape wraps and is refused by the launch
        for (std::size_t axis = N; axis-- > 0; stride *= static_cast<std::uint64_t>(shape[axis]))
            strides[axis] = static_cast<std::int64_t>(stride);
        return strides;
    }

    T *data_;
    extents shape_, strides_;
};

namespace detail
{
/// How a buffer reaches the library that its memory is of.
struct memory {
    ::interop_status (*alloc)(const void *library, std::size_t bytes, void **out);
    ::interop_status (*free)(const void *library, void *data);
    ::interop_status (*copy_in)(const void *library, ::interop_stream on, void *to, const void *from,
                                std::size_t bytes);
    ::interop_status (*copy_out)(const void *library, ::interop_stream on, void *to, const void *from,
                                 std::size_t bytes);
    const char *(*last_error)();

    void check(::interop_status status) const
    {
        if (status != INTEROP_OK)
            throw error(status, last_error());
    }
};
} // namespace detail

/// Memory of a module's device. Keeps the module loaded; frees itself.
template <class T>
class buffer
{
    static_assert(std::is_trivially_copyable<T>::value, "a kernel's elements are plain numbers");

public:
    buffer() noexcept = default;
    buffer(const detail::memory &memory, std::shared_ptr<const void> library, std::size_t size)
        : memory_(&memory), library_(std::move(library)), size_(size)
    {
        if (size > SIZE_MAX / sizeof(T))
            throw error(INTEROP_ERROR_OUT_OF_MEMORY, "no memory for " + std::to_string(size) + " elements");
        void *data = nullptr;
        memory.check(memory.alloc(library_.get(), size * sizeof(T), &data));
        data_ = static_cast<T *>(data);
    }
    buffer(buffer &&other) noexcept { swap(other); }
    buffer &operator=(buffer &&other) noexcept
    {
        buffer(std::move(other)).swap(*this);
        return *this;
    }
    buffer(const buffer &) = delete;
    buffer &operator=(const buffer &) = delete;
    ~buffer()
    {
        if (data_)
            memory_->free(library_.get(), data_);
    }

    void swap(buffer &other) noexcept
    {
        std::swap(memory_, other.memory_);
        std::swap(library_, other.library_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }

    T *data() noexcept { return data_; }
    const T *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

    /// A strided view of rank N: y.as_tensor<2>({height, width}).
    template <std::size_t N>
    tensor<T, N> as_tensor(const std::array<std::int64_t, N> &shape)
    {
        return tensor<T, N>(span<T>(data_, size_), shape);
    }
    template <std::size_t N>
    tensor<const T, N> as_tensor(const std::array<std::int64_t, N> &shape) const
    {
        return tensor<const T, N>(span<const T>(data_, size_), shape);
    }

    /// Copies from host memory of the same number of elements, in the stream's order; done on return.
    void copy_from(span<const T> host, interop::stream on = {})
    {
        check_size(host.size());
        if (size_)
            memory_->check(memory_->copy_in(library_.get(), on, data_, host.data(), size_ * sizeof(T)));
    }
    /// Copies to host memory of the same number of elements, after the stream's work.
    void copy_to(span<T> host, interop::stream on = {}) const
    {
        check_size(host.size());
        if (size_)
            memory_->check(memory_->copy_out(library_.get(), on, host.data(), data_, size_ * sizeof(T)));
    }
    std::vector<T> to_vector(interop::stream on = {}) const
    {
        std::vector<T> host(size_);
        copy_to(host, on);
        return host;
    }

private:
    void check_size(std::size_t size) const
    {
        if (size != size_)
            throw error(INTEROP_ERROR_ARGUMENT_RANGE, "a copy between " + std::to_string(size) +
                                                          " elements on the host and " + std::to_string(size_) +
                                                          " on the device");
    }

    const detail::memory *memory_ = nullptr;
    std::shared_ptr<const void> library_;
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace v1
} // namespace interop

#elif INTEROP_HPP_VERSION != 1
#error "two exported folders come from different versions of interop: export both with the same one"
#endif
