#include <penstock/http/access_log.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <penstock/io/blocked_signals.hpp>
#include <penstock/owned_descriptor.hpp>

#include "codec/text.hpp"

namespace penstock::http {

namespace {

using Format = AccessLogOptions::Format;
using codec::append_number;

/// Appends a text that the client has chosen.
void append_escaped(std::string& line, std::string_view text, std::string_view escape) {
    constexpr std::string_view digits = "0123456789abcdef";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7F && c != '"' && c != '\\') {
            line += c;
        } else {
            line += escape;
            line += digits[byte >> 4U];
            line += digits[byte & 15U];
        }
    }
}

void append_quoted(std::string& line, std::string_view text) {
    line += '"';
    append_escaped(line, text.empty() ? "-" : text, "\\x");
    line += '"';
}

void append_member(std::string& line, std::string_view name, std::string_view text) {
    line.append(",\"").append(name).append("\":\"");
    append_escaped(line, text, "\\u00");
    line += '"';
}

std::string time_text(std::time_t now, const char* form) {
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    std::array<char, 64> text{};
    return {text.data(), std::strftime(text.data(), text.size(), form, &parts)};
}

} // namespace

struct AccessLog::State {
    State(std::string name, OwnedDescriptor opened, const AccessLogOptions& wanted)
        : path(std::move(name)), options(wanted), file(std::move(opened)) {
        const io::BlockedSignals blocked;
        writer = std::thread([this] { write_until_stopped(); });
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        {
            const std::scoped_lock held(lock);
            stopping = true;
        }
        changed.notify_all();
        writer.join();
    }

    void append(const AccessRecord& record) {
        std::timespec now{};
        ::clock_gettime(CLOCK_REALTIME, &now);
        if (now.tv_sec != second) { // strftime once a second
            const bool json = options.format == Format::json;
            time = time_text(now.tv_sec, json ? "%Y-%m-%dT%H:%M:%S" : "%d/%b/%Y:%H:%M:%S +0000");
            second = now.tv_sec;
        }
        const std::string peer = record.peer ? record.peer->address() : std::string();
        if (options.format == Format::json) {
            append_json(record, peer, now.tv_nsec);
        } else {
            append_text(record, peer);
        }
    }

    void append_text(const AccessRecord& record, std::string_view peer) {
        text.append(peer.empty() ? "-" : peer).append(" - - [").append(time).append("] \"");
        if (record.method.empty()) {
            text += '-';
        } else {
            append_escaped(text, record.method, "\\x");
            text += ' ';
            append_escaped(text, record.target, "\\x");
            text += " HTTP/";
            append_number(text, record.major_version);
            text += '.';
            append_number(text, record.minor_version);
        }
        text += "\" ";
        append_number(text, record.status);
        text += ' ';
        append_number(text, record.body_size);
        if (options.format == Format::combined) {
            text += ' ';
            append_quoted(text, record.referer);
            text += ' ';
            append_quoted(text, record.user_agent);
        }
        text += '\n';
    }

    void append_json(const AccessRecord& record, std::string_view peer, long nanoseconds) {
        text.append("{\"time\":\"").append(time).append(".");
        const std::string milliseconds = std::to_string(1000 + nanoseconds / 1'000'000);
        text.append(milliseconds, 1).append("Z\"");
        append_member(text, "peer", peer);
        append_member(text, "method", record.method);
        append_member(text, "target", record.target);
        text += ",\"status\":";
        append_number(text, record.status);
        text += ",\"bytes\":";
        append_number(text, record.body_size);
        text += ",\"seconds\":";
        append_number(text, std::chrono::duration<double>(record.duration).count());
        append_member(text, "referer", record.referer);
        append_member(text, "user_agent", record.user_agent);
        text += "}\n";
    }

    void write_until_stopped() {
        std::unique_lock held(lock);
        while (!stopping || !text.empty()) {
            changed.wait(held, [this] { return stopping || (!text.empty() && pauses == 0); });
            if (!stopping) { // lines that come meanwhile go into the same block
                changed.wait_for(held, options.interval, [this] {
                    return stopping || pauses != 0 || text.size() > options.buffer / 2;
                });
            }
            if (pauses == 0) {
                write_waiting(held);
            }
        }
    }

    /// Writes the lines that wait, without the lock.
    void write_waiting(std::unique_lock<std::mutex>& held) {
        if (text.empty()) {
            return;
        }
        block.swap(text);
        const std::uint64_t lost = std::exchange(untold, 0);
        writing = true;
        held.unlock();
        const bool tells = lost != 0 && append_notice(lost);
        std::string_view rest = block;
        if (!torn || write_from("\n").empty()) { // the file may end with the half of a line
            torn = false;
            rest = write_from(block);
            torn = rest.size() < block.size() && block[block.size() - rest.size() - 1] != '\n';
        }
        const auto unwritten = static_cast<std::uint64_t>(std::ranges::count(rest, '\n'));
        block.clear();
        held.lock();
        writing = false;
        if (unwritten != 0 || !tells) { // the notice is the last line
            untold += lost;
        }
        if (unwritten != 0) {
            count_dropped(unwritten - (tells ? 1 : 0));
        }
        idle.notify_all();
    }

    /// A line about those that were dropped. Whether there was memory for it.
    [[nodiscard]] bool append_notice(std::uint64_t lost) noexcept {
        try {
            const std::string count = std::to_string(lost);
            block += options.format == Format::json ? "{\"dropped\":" + count + "}\n"
                                                    : "# " + count + " lines were dropped\n";
            return true;
        } catch (const std::bad_alloc&) {
            return false;
        }
    }

    /// Returns what could not be written.
    [[nodiscard]] std::string_view write_from(std::string_view rest) const noexcept {
        while (!rest.empty()) {
            const ssize_t count = ::write(file.get(), rest.data(), rest.size());
            if (count < 0 && errno != EINTR) {
                break;
            }
            rest.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        }
        return rest;
    }

    void count_dropped(std::uint64_t lines) noexcept {
        untold += lines;
        dropped.fetch_add(lines, std::memory_order_relaxed);
    }

    /// Writes the lines that were added before, instead of the writer: new lines could keep that
    /// one busy for ever. Then calls `meanwhile`, while nobody writes.
    template <typename Function> void write_all_and(Function meanwhile) {
        std::unique_lock held(lock);
        ++pauses;
        changed.notify_all();
        idle.wait(held, [this] { return !writing; });
        write_waiting(held);
        meanwhile();
        --pauses;
        changed.notify_all();
    }

    std::string path;
    AccessLogOptions options;
    OwnedDescriptor file; ///< changed only while nothing is written

    std::mutex lock;
    std::condition_variable changed; ///< there are lines, or somebody waits for them
    std::condition_variable idle;    ///< nothing is written now
    std::string text;                ///< lines that wait
    std::string block;               ///< lines that are written now
    std::string time;
    std::time_t second = -1;  ///< of `time`
    std::uint64_t untold = 0; ///< dropped lines that the file does not mention yet
    std::atomic<std::uint64_t> dropped{0};
    unsigned pauses = 0; ///< calls in whose favour the writer waits
    bool writing = false;
    bool torn = false; ///< the file ends with a part of a line. Changed only while writing
    bool stopping = false;
    std::thread writer;
};

namespace {

Result<OwnedDescriptor> opened(const std::string& path, mode_t permissions) {
    if (path.contains('\0')) {
        return failure(std::errc::invalid_argument);
    }
    OwnedDescriptor file(
        ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, permissions));
    if (!file) {
        return last_failure();
    }
    return file;
}

} // namespace

AccessLog::AccessLog(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
AccessLog::~AccessLog() = default;

Result<std::shared_ptr<AccessLog>> AccessLog::open(std::string path,
                                                   const AccessLogOptions& options) {
    Result<OwnedDescriptor> file = opened(path, options.permissions);
    if (!file) {
        return failure(file.error());
    }
    auto state = std::make_unique<State>(std::move(path), std::move(*file), options);
    return std::shared_ptr<AccessLog>(new AccessLog(std::move(state)));
}

void AccessLog::add(const AccessRecord& record) noexcept {
    State& state = *state_;
    bool first = false;
    {
        const std::scoped_lock held(state.lock);
        if (state.text.size() >= state.options.buffer) {
            state.count_dropped(1);
            return;
        }
        const std::size_t before = state.text.size();
        try {
            state.append(record);
        } catch (...) { // no memory: no half of a line
            state.text.resize(before);
            state.count_dropped(1);
            return;
        }
        // The writer sleeps without lines, and while it collects until half of the buffer is full.
        const std::size_t half = state.options.buffer / 2;
        first = before == 0 || (before <= half && state.text.size() > half);
    }
    if (first) {
        state.changed.notify_all();
    }
}

void AccessLog::flush() {
    state_->write_all_and([] {});
}

Result<> AccessLog::reopen() {
    Result<OwnedDescriptor> file = opened(state_->path, state_->options.permissions);
    if (!file) {
        return failure(file.error());
    }
    state_->write_all_and([&] {
        state_->file = std::move(*file);
        state_->torn = false;
    });
    return {};
}

std::uint64_t AccessLog::dropped() const noexcept {
    return state_->dropped.load(std::memory_order_relaxed);
}

} // namespace penstock::http
