#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/codec/byte_buffer.hpp>
#include <penstock/codec/http/fields.hpp>
#include <penstock/codec/http2/error.hpp>
#include <penstock/codec/http2/limits.hpp>

namespace penstock::codec::http2 {

/// The bytes with which a client begins (RFC 9113, section 3.4).
inline constexpr std::string_view client_preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Whether libnghttp2 is there (Debian: libnghttp2-14). It is loaded by the first call. Thread
/// safe.
[[nodiscard]] bool is_available() noexcept;

/// One request and its response. A `ServerSession` owns it until the program releases it.
class Stream {
public:
    [[nodiscard]] std::int32_t id() const noexcept { return id_; }

    /// Whether the request is new: true once, when its head is there for `ServerSession::head`.
    [[nodiscard]] bool take_new() noexcept { return std::exchange(new_, false); }
    /// The head has exceeded a limit, and its fields are not there: it deserves a 431.
    [[nodiscard]] bool head_too_large() const noexcept { return too_large_; }
    /// The request has ended: no part of a body follows `received`.
    [[nodiscard]] bool request_ended() const noexcept { return request_ended_; }
    /// The stream has ended for both sides, or was reset. Nothing can be sent any more.
    [[nodiscard]] bool is_closed() const noexcept { return closed_; }
    /// The end of the response was appended to the output of `produce`.
    [[nodiscard]] bool response_sent() const noexcept { return sent_end_; }
    /// Whether the request goes on behind the end of the response, as that of a tunnel does.
    /// Otherwise the client is told to send no more of it.
    void keep_request(bool wanted) noexcept { keeps_request_ = wanted; }

    /// What of the response waits for the client's window.
    [[nodiscard]] std::size_t unsent() noexcept { return output_.size() - sent_; }

    ByteBuffer received;  ///< of the body; the program empties it
    ByteBuffer text;      ///< for the program: the response's head while it is made
    void* user = nullptr; ///< for the program

private:
    friend class ServerSession;

    ByteBuffer output_;
    std::size_t sent_ = 0; ///< of `output_`
    std::size_t head_begin_ = 0;
    std::size_t fields_begin_ = 0;
    std::size_t fields_count_ = 0;
    std::size_t head_size_ = 0;
    std::string trailers_; ///< names and values
    std::vector<std::pair<std::uint32_t, std::uint32_t>> trailer_sizes_;
    std::size_t trailer_size_ = 0;   ///< as the limit counts it
    std::int64_t stalled_since_ = 0; ///< 0: it moves
    std::int32_t id_ = 0;
    bool new_ = false;
    bool announced_ = false;
    bool too_large_ = false;
    bool request_ended_ = false;
    bool closed_ = false;
    bool changed_ = false;
    bool answered_ = false;
    bool response_ended_ = false;
    bool sent_end_ = false;
    bool keeps_request_ = false;
    bool deferred_ = false;
    bool moved_ = false;
};

/// The server's side of an HTTP/2 connection (RFC 9113) on nghttp2, without I/O: bytes of the
/// client go in, changes of streams and bytes for the client come out. It adds what nghttp2 leaves
/// to its users: limits of heads, and of frames that cost more than they do.
///
///     ServerSession session(limits);
///     session.receive(bytes, now);
///     while (Stream* stream = session.next_change()) ...   // answer, or release a closed one
///     session.produce(output, 65536);                       // and send it
///     if (session.is_finished()) ...                        // close
///
/// Flow control: a body's bytes count against the stream's window until `consume`. Functions that
/// may allocate throw `std::bad_alloc`. Not thread safe.
class ServerSession {
public:
    using Time = std::chrono::nanoseconds;

    /// Requires `is_available()`.
    explicit ServerSession(const Limits& limits);
    ~ServerSession();
    ServerSession(const ServerSession&) = delete;
    ServerSession& operator=(const ServerSession&) = delete;

    /// Takes bytes of the client. False if the client has broken a rule: `failure` says which. The
    /// rest of `produce` is then to be sent, and the connection to be closed.
    bool receive(std::string_view bytes, Time now);

    /// Why `receive` has failed.
    [[nodiscard]] std::string_view failure() const noexcept { return failure_; }

    /// The next stream that has changed, or null. Each change is told once.
    [[nodiscard]] Stream* next_change() noexcept;

    /// The fields of the head of a stream that is new, pseudo-fields first. Valid until the next
    /// call of `head` or `receive`.
    [[nodiscard]] std::span<const http::Field> head(const Stream& stream);

    /// The same as a text that is equal for equal heads only.
    [[nodiscard]] std::string_view head_text(const Stream& stream) const noexcept;

    /// The fields behind the body of a request that has ended. Valid until the next call, or the
    /// release of the stream.
    [[nodiscard]] std::span<const http::Field> trailers(const Stream& stream);

    /// The program has taken `size` bytes of the body: the client may send as many more.
    void consume(Stream& stream, std::size_t size) noexcept;

    /// Sends an interim response.
    void send_interim(Stream& stream, int status, std::span<const http::Field> fields);

    /// Begins the response, once for each stream. Names may have upper-case letters. Fields of the
    /// HTTP/1.1 connection are left out. With `ends`, it has no body.
    void respond(Stream& stream, int status, std::span<const http::Field> fields, bool ends);

    /// Appends to the body of the response.
    void write(Stream& stream, std::string_view bytes);

    /// Ends the response. What remains of the request is refused, unless `Stream::keep_request`.
    void finish(Stream& stream) noexcept;

    /// Ends the stream at once.
    void reset(Stream& stream, ErrorCode code) noexcept;

    /// Frees a closed stream.
    void release(Stream& stream) noexcept;

    /// Appends bytes for the client: frames until there are none, or `output` has `limit` bytes.
    /// False if the session has failed.
    bool produce(ByteBuffer& output, std::size_t limit);

    /// No stream begins after those that the client has begun: sends GOAWAY.
    void go_away(ErrorCode code) noexcept;

    /// Whether nothing is left to receive or to send.
    [[nodiscard]] bool is_finished() const noexcept;

    /// Streams whose heads are complete, until their release.
    [[nodiscard]] std::size_t open_streams() const noexcept { return streams_.size(); }
    [[nodiscard]] const std::vector<Stream*>& streams() const noexcept { return streams_; }

    /// Whether a head has begun that is not complete.
    [[nodiscard]] bool head_is_open() const noexcept { return open_heads_ > 0; }

    /// Resets the streams whose clients have taken nothing for `limit`, although something waits
    /// for them. Meant to be called about once a second.
    void reset_stalled(Time now, Time limit) noexcept;

private:
    struct Callbacks;
    struct NghttpSession;

    /// A rate, and what is left of it.
    class Budget {
    public:
        explicit Budget(const Rate& rate) noexcept : rate_(rate), left_(rate.burst) {}
        bool spend(Time now) noexcept;
        void credit(double amount) noexcept;

    private:
        Rate rate_;
        double left_;
        Time last_{0};
    };

    /// Counts the frames whose heads are in `bytes`: nghttp2 tells of most of them, and not of the
    /// unknown ones. False if there are too many.
    bool count_frames(std::string_view bytes) noexcept;
    bool count_frame(unsigned char type, unsigned char flags, std::size_t length) noexcept;

    /// Fields of a text of names and values, each with a zero behind it.
    [[nodiscard]] std::span<const http::Field>
    fields_of(std::string_view text,
              std::span<const std::pair<std::uint32_t, std::uint32_t>> sizes);

    /// Drops the heads of earlier turns that are complete.
    void forget_heads() noexcept;

    Stream* make_stream(std::int32_t id);
    Stream* stream_of(std::int32_t id) const noexcept;
    void recycle(Stream& stream) noexcept;
    void note_change(Stream& stream);
    void fail(std::string_view why) noexcept;
    std::size_t fill_fields(int status, std::span<const http::Field> fields);

    Limits limits_;
    std::unique_ptr<NghttpSession> session_;
    std::vector<Stream*> streams_;
    std::vector<std::unique_ptr<Stream>> spare_;
    std::vector<Stream*> changes_;
    std::size_t next_change_ = 0;
    /// Names and values of the heads that were received in this turn, and of the open one.
    std::string heads_;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> sizes_;
    std::vector<http::Field> fields_;
    std::string status_;
    ByteBuffer* output_ = nullptr; ///< of `produce`, while it runs
    Budget resets_;
    Budget control_frames_;
    Time now_{0};
    std::string_view failure_;
    ErrorCode code_ = ErrorCode::enhance_your_calm; ///< of a failure
    std::size_t open_heads_ = 0;
    Stream* open_head_ = nullptr;                 ///< that of which fields may follow
    std::size_t skipped_ = client_preface.size(); ///< bytes until the next head of a frame
    std::array<char, 9> frame_head_{};
    unsigned char frame_head_size_ = 0;
    std::size_t continuations_ = 0;
    bool away_ = false;
};

} // namespace penstock::codec::http2
