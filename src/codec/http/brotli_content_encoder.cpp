#include <penstock/codec/http/content_encoder.hpp>

#include <algorithm>
#include <cstdint>
#include <new>

#include <dlfcn.h>

namespace penstock::codec::http {

namespace {

// What brotli/encode.h declares, as far as it is used here: the interface of libbrotlienc.so.1.
// Declared here, a build needs no header of it, and a process no library until it asks for "br".

struct BrotliState;

struct BrotliLibrary {
    BrotliState* (*create)(void* (*)(void*, std::size_t), void (*)(void*, void*), void*);
    void (*destroy)(BrotliState*);
    int (*set_parameter)(BrotliState*, int parameter, std::uint32_t value);
    int (*compress)(BrotliState*, int operation, std::size_t* available_in,
                    const std::uint8_t** next_in, std::size_t* available_out,
                    std::uint8_t** next_out, std::size_t* total_out);
    int (*has_more_output)(BrotliState*);
};

constexpr int quality_parameter = 1;
constexpr int window_parameter = 2;
constexpr int flush_operation = 1;
constexpr int finish_operation = 2;

template <typename Function>
bool find(void* loaded, const char* name, Function& function) noexcept {
    function = reinterpret_cast<Function>(::dlsym(loaded, name));
    return function != nullptr;
}

struct FoundBrotli {
    FoundBrotli() noexcept {
        // Never closed: encoders may live as long as the process.
        void* loaded = ::dlopen("libbrotlienc.so.1", RTLD_NOW | RTLD_LOCAL);
        usable = loaded != nullptr && find(loaded, "BrotliEncoderCreateInstance", library.create) &&
                 find(loaded, "BrotliEncoderDestroyInstance", library.destroy) &&
                 find(loaded, "BrotliEncoderSetParameter", library.set_parameter) &&
                 find(loaded, "BrotliEncoderCompressStream", library.compress) &&
                 find(loaded, "BrotliEncoderHasMoreOutput", library.has_more_output);
    }

    BrotliLibrary library{};
    bool usable = false;
};

const BrotliLibrary* brotli_library() noexcept {
    static const FoundBrotli found;
    return found.usable ? &found.library : nullptr;
}

/// The library has no call that makes a state as a new one, so each body has a state of its own.
class BrotliEncoder final : public ContentEncoder {
public:
    BrotliEncoder(const BrotliLibrary& library, int quality)
        : library_(library), state_(library.create(nullptr, nullptr, nullptr)) {
        if (state_ == nullptr) {
            throw std::bad_alloc();
        }
        constexpr std::uint32_t window = 18; // 256 KiB: its memory is each response's
        library_.set_parameter(state_, quality_parameter, static_cast<std::uint32_t>(quality));
        library_.set_parameter(state_, window_parameter, window);
    }
    BrotliEncoder(const BrotliEncoder&) = delete;
    BrotliEncoder& operator=(const BrotliEncoder&) = delete;
    ~BrotliEncoder() override { library_.destroy(state_); }

    void encode(std::span<const std::byte> part, std::string& output) override {
        run(part, flush_operation, output);
    }
    void finish(std::span<const std::byte> part, std::string& output) override {
        run(part, finish_operation, output);
    }

private:
    void run(std::span<const std::byte> part, int operation, std::string& output) {
        constexpr std::size_t most = std::size_t{16} * 1024;
        constexpr std::size_t least = 512;
        const auto* next = reinterpret_cast<const std::uint8_t*>(part.data());
        std::size_t left = part.size();
        do {
            const std::size_t used = output.size();
            const std::size_t room = std::clamp(left / 2, least, most);
            output.resize(used + room);
            auto* into = reinterpret_cast<std::uint8_t*>(output.data() + used);
            std::size_t room_left = room;
            const int done =
                library_.compress(state_, operation, &left, &next, &room_left, &into, nullptr);
            output.resize(used + room - room_left);
            if (done == 0) {
                throw std::bad_alloc(); // all else is right
            }
        } while (left > 0 || library_.has_more_output(state_) != 0);
    }

    const BrotliLibrary& library_;
    BrotliState* state_;
};

} // namespace

std::optional<ContentCoding> brotli(int quality) {
    const BrotliLibrary* const library = brotli_library();
    if (library == nullptr) {
        return std::nullopt;
    }
    return ContentCoding{.name = "br", .make = [library, quality = std::clamp(quality, 0, 11)] {
                             return std::make_unique<BrotliEncoder>(*library, quality);
                         }};
}

} // namespace penstock::codec::http
