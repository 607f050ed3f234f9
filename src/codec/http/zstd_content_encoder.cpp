#include <penstock/codec/http/content_encoder.hpp>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include <dlfcn.h>

#include "codec/idle_states.hpp"

namespace penstock::codec::http {

namespace {

// What zstd.h declares, as far as it is used here: the interface of libzstd.so.1, stable since
// 1.4.0. Declared here, a build needs no header of it, and a process no library until it asks for
// "zstd".

struct ZstdContext;

struct ZstdOutput {
    void* data;
    std::size_t size;
    std::size_t used;
};

struct ZstdInput {
    const void* data;
    std::size_t size;
    std::size_t used;
};

struct ZstdLibrary {
    ZstdContext* (*create)();
    std::size_t (*free)(ZstdContext*);
    std::size_t (*set_parameter)(ZstdContext*, int parameter, int value);
    std::size_t (*compress)(ZstdContext*, ZstdOutput*, ZstdInput*, int directive);
    unsigned (*is_error)(std::size_t);
    std::size_t (*reset)(ZstdContext*, int what);
    std::size_t (*size_of)(const ZstdContext*);
};

constexpr int level_parameter = 100;
constexpr int flush_directive = 1;
constexpr int end_directive = 2;
constexpr int session_alone = 1; // and not the parameters
/// A larger one, as those of high levels become, is freed with its body. At level 3 it has 3 MiB at
/// most.
constexpr std::size_t largest_idle_context = std::size_t{4} * 1024 * 1024;
/// From 20 on its window has more than the 8 MiB that a client must allow (RFC 9659).
constexpr int highest_level = 19;

template <typename Function>
bool find(void* loaded, const char* name, Function& function) noexcept {
    function = reinterpret_cast<Function>(::dlsym(loaded, name));
    return function != nullptr;
}

struct FoundZstd {
    FoundZstd() noexcept {
        // Never closed: encoders may live as long as the process.
        void* loaded = ::dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
        usable = loaded != nullptr && find(loaded, "ZSTD_createCCtx", library.create) &&
                 find(loaded, "ZSTD_freeCCtx", library.free) &&
                 find(loaded, "ZSTD_CCtx_setParameter", library.set_parameter) &&
                 find(loaded, "ZSTD_compressStream2", library.compress) &&
                 find(loaded, "ZSTD_isError", library.is_error) &&
                 find(loaded, "ZSTD_CCtx_reset", library.reset) &&
                 find(loaded, "ZSTD_sizeof_CCtx", library.size_of);
    }

    ZstdLibrary library{};
    bool usable = false;
};

const ZstdLibrary* zstd_library() noexcept {
    static const FoundZstd found;
    return found.usable ? &found.library : nullptr;
}

/// A context with its level.
class ZstdState {
public:
    ZstdState(const ZstdLibrary& library, int level)
        : library_(library), context_(library.create()) {
        if (context_ == nullptr) {
            throw std::bad_alloc();
        }
        library_.set_parameter(context_, level_parameter, level);
    }
    ZstdState(const ZstdState&) = delete;
    ZstdState& operator=(const ZstdState&) = delete;
    ~ZstdState() { library_.free(context_); }

    [[nodiscard]] ZstdContext* context() const noexcept { return context_; }

    /// Makes it as a new one, unless it is too large to be kept.
    [[nodiscard]] bool reset() noexcept {
        return library_.size_of(context_) <= largest_idle_context &&
               library_.is_error(library_.reset(context_, session_alone)) == 0;
    }

private:
    const ZstdLibrary& library_;
    ZstdContext* context_;
};

thread_local IdleStates<ZstdState, int, 2> idle_states;

class ZstdEncoder final : public ContentEncoder {
public:
    ZstdEncoder(const ZstdLibrary& library, int level)
        : library_(library), level_(level), state_(idle_states.take(level)) {
        if (!state_) {
            state_ = std::make_unique<ZstdState>(library, level);
        }
    }

    void encode(std::span<const std::byte> part, std::string& output) override {
        run(part, flush_directive, output);
    }
    void finish(std::span<const std::byte> part, std::string& output) override {
        run(part, end_directive, output);
        if (state_->reset()) {
            idle_states.give(level_, std::move(state_));
        }
    }

private:
    void run(std::span<const std::byte> part, int directive, std::string& output) {
        constexpr std::size_t most = std::size_t{16} * 1024;
        constexpr std::size_t least = 512;
        ZstdInput from{.data = part.data(), .size = part.size(), .used = 0};
        std::size_t more = 0;
        do {
            const std::size_t used = output.size();
            output.resize(used + std::clamp((from.size - from.used) / 2, least, most));
            ZstdOutput into{.data = output.data() + used, .size = output.size() - used, .used = 0};
            more = library_.compress(state_->context(), &into, &from, directive);
            output.resize(used + into.used);
            if (library_.is_error(more) != 0) {
                throw std::bad_alloc(); // all else is right
            }
        } while (more != 0);
    }

    const ZstdLibrary& library_;
    int level_;
    std::unique_ptr<ZstdState> state_;
};

} // namespace

std::optional<ContentCoding> zstd(int level) {
    const ZstdLibrary* const library = zstd_library();
    if (library == nullptr) {
        return std::nullopt;
    }
    return ContentCoding{.name = "zstd",
                         .make = [library, level = std::clamp(level, 1, highest_level)] {
                             return std::make_unique<ZstdEncoder>(*library, level);
                         }};
}

} // namespace penstock::codec::http
