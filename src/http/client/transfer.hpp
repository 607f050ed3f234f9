#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <curl/curl.h>

#include <penstock/http/client_errors.hpp>
#include <penstock/http/client_options.hpp>
#include <penstock/http/client_response.hpp>
#include <penstock/http/head.hpp>
#include <penstock/http/headers.hpp>
#include <penstock/io/intrusive_list.hpp>
#include <penstock/io/timer_queue.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/task/operation_base.hpp>

#include "http/client/content_decoder.hpp"
#include "http/client/curl_handles.hpp"
#include "http/client/curl_multi.hpp"

namespace penstock::http::detail {

class Transfer;

/// Waits for a change of a transfer: its head, a part of its body, its end, or that it needs a part
/// of the request's body. The waiter then asks the transfer what there is.
class TransferWait final : public OperationBase {
public:
    explicit TransferWait(Transfer& transfer) noexcept
        : OperationBase(&cancel), transfer_(&transfer) {}

    [[nodiscard]] bool await_ready() noexcept;
    template <typename Promise> void await_suspend(std::coroutine_handle<Promise> task) noexcept {
        suspend(task);
        begin();
    }
    [[nodiscard]] Result<> await_resume() const noexcept {
        return cancelled_ ? Result<>(failure(std::errc::operation_canceled)) : Result<>();
    }

private:
    friend class Transfer;

    void begin() noexcept;
    static void cancel(OperationBase& base) noexcept;

    Transfer* transfer_;
    bool ready_ = false;
    bool cancelled_ = false;
};

/// What a transfer sends.
struct TransferRequest {
    std::string url{};
    std::string name{}; ///< for messages: the method, and the URL without user name and password
    std::string_view method{};
    const Headers* headers = nullptr;
    const Credentials* credentials = nullptr;
    ClientTimeouts timeouts{};
    /// Whether there is a body, its bytes if they are in memory, and its length if it is known.
    bool has_body = false;
    const std::string* bytes = nullptr;
    std::optional<std::uint64_t> length{};
    /// Whether a body that is not in memory can be sent again.
    bool repeatable = false;
    /// The most bytes of the response's body, decoded, if all of it is to be collected.
    std::optional<std::uint64_t> most{};
};

/// One request and its response on libcurl's easy interface: its callbacks, the bounded buffers in
/// both directions, and the pauses between them.
///
/// Owns the easy handle, the buffers, and a share of the multi handle. It refers to what
/// `TransferRequest` points to (headers, credentials, bytes), which must outlive it. One task waits
/// at a time.
///
/// Its callbacks run inside libcurl, so they resume nothing: they note what has happened, and the
/// waiting task runs when libcurl has returned. That task may then end the transfer, and destroy
/// it, which takes it out of the multi handle. `head` and `trailers` stay valid until then.
///
/// Thread safety: only on the thread of its loop.
class Transfer : public io::ListHook<Transfer> {
public:
    /// Throws `std::bad_alloc`. Does not start it.
    Transfer(std::shared_ptr<CurlMulti> multi, TransferRequest request);
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;
    ~Transfer();

    void start();

    [[nodiscard]] TransferWait wait() noexcept { return TransferWait(*this); }

    /// Whether the head of the response is there. It is not that of an interim response (1xx).
    [[nodiscard]] bool has_head() const noexcept { return stage_ != Stage::head; }
    [[nodiscard]] const ResponseHead& head() const noexcept { return head_; }
    [[nodiscard]] Version version() const noexcept { return version_; }
    [[nodiscard]] const Headers& trailers() const noexcept { return trailers_; }

    /// Takes buffered bytes of the response, decoded. Returns how many. Once it has returned 0,
    /// `error` also tells damages of the coding.
    [[nodiscard]] std::size_t take(MutableBytes into) noexcept;

    /// Whether it has ended. Bytes may still be buffered.
    [[nodiscard]] bool ended() const noexcept { return ended_; }
    /// Why it has ended. None if the response is complete.
    [[nodiscard]] const std::error_code& error() const noexcept { return error_; }

    /// Whether it waits for a part of the request's body.
    [[nodiscard]] bool needs_body() const noexcept { return needs_body_ && !ended_; }
    /// How often the body has begun anew. A part that was read before belongs to the old attempt.
    [[nodiscard]] unsigned body_attempt() const noexcept { return body_attempt_; }
    /// Sends the next part, and leaves the memory of the last one in `part`. An empty part is the
    /// end of the body.
    void add_body(std::vector<std::byte>& part);

    /// Ends it with this error.
    void fail(std::error_code error) noexcept;

    // For CurlMulti
    [[nodiscard]] CURL* easy() const noexcept { return easy_.get(); }
    /// Ends it with libcurl's result.
    void finish(CURLcode code) noexcept;

private:
    friend class TransferWait;

    enum class Stage : std::uint8_t { head, body };

    // In transfer_options.cpp
    void configure();
    void configure_method();
    void configure_connection();
    void configure_tls();
    void configure_proxy();
    void configure_credentials();
    void configure_fields();
    void add_line(const char* line);
    template <typename Value> void set(CURLoption option, Value value);

    static std::size_t on_header(char* data, std::size_t size, std::size_t count,
                                 void* self) noexcept;
    static std::size_t on_data(char* data, std::size_t size, std::size_t count,
                               void* self) noexcept;
    static std::size_t on_read(char* into, std::size_t size, std::size_t count,
                               void* self) noexcept;
    static int on_seek(void* self, curl_off_t offset, int origin) noexcept;
    static int on_connected(void* self, char* peer, char* own, int peer_port,
                            int own_port) noexcept;
    static int on_progress(void* self, curl_off_t to_receive, curl_off_t received,
                           curl_off_t to_send, curl_off_t sent) noexcept;
    static void on_idle(io::Work& work);

    void add_header_line(std::string_view line);
    void begin_head(std::string_view status_line);
    void end_of_fields();
    void check_length() const;
    void flush_field();
    void leave_if_spoken_to(const char* peer, int peer_port, int own_port) noexcept;
    [[nodiscard]] std::size_t buffered() const noexcept { return input_.size() - input_begin_; }
    [[nodiscard]] std::size_t decode(MutableBytes into) noexcept;
    void fail_anyway(ClientError error, std::string_view details) noexcept;
    void stop() noexcept;
    void apply_pauses() noexcept;
    void notify() noexcept;
    [[nodiscard]] bool restart_idle_time() noexcept;
    [[nodiscard]] bool set_idle_timer() noexcept;
    [[nodiscard]] bool server_takes_data() noexcept;
    [[nodiscard]] bool awaits_program() const noexcept { return receive_paused_ || send_paused_; }

    std::shared_ptr<CurlMulti> multi_;
    TransferRequest request_;
    EasyHandle easy_;
    FieldList fields_;
    std::array<char, CURL_ERROR_SIZE> details_{};

    TransferWait* waiter_ = nullptr;
    bool changed_ = false; ///< since the last wait
    bool running_ = false;
    bool ended_ = false;
    std::error_code error_;
    /// What a callback has refused, which libcurl reports in its own words.
    std::optional<ClientError> refused_;

    Stage stage_ = Stage::head;
    bool head_complete_ = false;
    ResponseHead head_;
    Headers trailers_;
    Version version_ = Version::other;
    int status_ = 0;
    std::string field_; ///< the last line, which the next one may continue
    std::size_t head_size_ = 0;

    std::uint64_t body_size_ = 0; ///< of what has arrived, or with a decoder, of what was taken
    bool asks_for_coding_ = false;
    std::unique_ptr<ContentDecoder> decoder_; ///< of what is in `input_`
    std::vector<std::byte> input_;
    std::size_t input_begin_ = 0;
    bool receive_paused_ = false;
    bool resuming_ = false;   ///< libcurl hands over what it has kept
    bool discarding_ = false; ///< what still arrives

    std::vector<std::byte> output_;
    std::size_t output_begin_ = 0;
    std::uint64_t sent_ = 0; ///< of the body, given to libcurl
    unsigned body_attempt_ = 0;
    bool output_ended_ = false;
    bool needs_body_ = false;
    bool send_paused_ = false;

    bool connected_ = false;
    io::Timer idle_timer_{&on_idle};
    io::MonotonicTime last_byte_ = 0; ///< when it has arrived or left
    std::uint64_t acknowledged_ = 0;  ///< by the server, at the last look
    curl_off_t received_ = 0;
    curl_off_t given_ = 0;
};

} // namespace penstock::http::detail
