#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/task.hpp>
#include <penstock/ws/handler.hpp>
#include <penstock/ws/shared_message.hpp>
#include <penstock/ws/web_socket.hpp>

namespace penstock::ws {

/// What happens to a subscriber that reads more slowly than messages are published.
enum class SlowReader : std::uint8_t {
    close,       ///< it gets close code 1013, and can connect again
    drop_newest, ///< it does not get the message
    drop_oldest, ///< it does not get the messages that wait for the longest time
    /// It gets of each topic only the last message that waits. Beyond the bound, it is closed.
    coalesce,
};

struct SubscriberOptions {
    SlowReader slow_reader = SlowReader::close;
    /// How much may wait in this process, in bytes of payload. The kernel keeps more:
    /// `Limits::maximum_backlog`. A message that is larger alone may wait alone.
    std::size_t maximum_backlog = 65'536;
    std::size_t maximum_messages = 1024; ///< how many may wait
};

class Subscriber;

/// Messages for all connections that have subscribed to a topic, a text that is compared as it is.
/// A message is encoded once, and shared until the last connection has sent it.
///
///     ws::Topics topics;
///     const auto chat = [](ws::WebSocket& socket, ws::Subscriber& self) -> Task<Result<>> {
///         self.subscribe("room");
///         for (;;) {
///             const ws::Message message = co_await unwrap(socket.receive());
///             self.topics().publish("room", message.text());
///         }
///     };
///     server.serve(ws::with_topics(topics, chat));                       // of ws::Server
///     server.upgrade("/chat", "websocket",
///                    ws::upgrade_handler(ws::with_topics(topics, chat))); // or of http::Server
///
/// It must outlive its subscribers.
///
/// Thread safety: only on the thread of its loop. With a loop for each core, each has its own, and
/// each must publish.
class Topics {
public:
    Topics() = default;
    Topics(const Topics&) = delete;
    Topics& operator=(const Topics&) = delete;

    /// Gives the message to all subscribers of the topic, also to the one whose handler publishes.
    /// Sends nothing by itself and waits for nothing: a subscriber sends what waits for it, in the
    /// order in which it was published. Returns how many have taken it. Throws `std::bad_alloc`.
    std::size_t publish(std::string_view topic, const SharedMessage& message);
    /// The same with a text message, which must be UTF-8.
    std::size_t publish(std::string_view topic, std::string_view text) {
        return publish(topic, SharedMessage::text(text));
    }

    /// How many connections have subscribed to the topic.
    [[nodiscard]] std::size_t subscribers(std::string_view topic) const noexcept;

private:
    friend class Subscriber;

    struct Hash : std::hash<std::string_view> {
        using is_transparent = void;
    };
    struct Topic {
        std::vector<Subscriber*> subscribers;
    };
    using Map = std::unordered_map<std::string, Topic, Hash, std::equal_to<>>;

    Map topics_; // a topic without subscribers is removed
};

/// A connection's part in `Topics`. `with_topics` makes one for each connection.
///
/// Thread safety: that of `Topics`.
class Subscriber {
public:
    /// Both must outlive it.
    Subscriber(Topics& topics, WebSocket& socket, const SubscriberOptions& options = {}) noexcept
        : topics_(topics), socket_(socket), options_(options) {}
    ~Subscriber();
    Subscriber(const Subscriber&) = delete;
    Subscriber& operator=(const Subscriber&) = delete;

    [[nodiscard]] Topics& topics() const noexcept { return topics_; }

    /// From now on the connection gets what is published there. False if it did already. Throws
    /// `std::bad_alloc`.
    bool subscribe(std::string_view topic);
    /// What waits already is sent all the same. False if it had not subscribed.
    bool unsubscribe(std::string_view topic) noexcept;

    /// How many messages it did not get because it was slow.
    [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }
    /// How many messages wait to be sent.
    [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.size(); }

    /// Runs the conversation, and sends beside it what is published. Ends with it, with an error of
    /// sending, or when the reader is too slow for its policy. The end by slowness is a success:
    /// the close frame was sent, or could not be within `Limits::close`.
    [[nodiscard]] Task<Result<>> run(Task<Result<>> conversation);

private:
    friend class Topics;

    struct Waiting {
        const void* topic; ///< of the map, only to compare
        SharedMessage message;
    };

    /// Whether it has taken the message.
    bool take(const Topics::Topic& topic, const SharedMessage& message);
    [[nodiscard]] bool has_room_for(std::size_t size) const noexcept;
    void drop_first() noexcept;
    void give_up() noexcept;
    [[nodiscard]] Task<Result<>> deliver();
    [[nodiscard]] Task<Result<>> close_when_slow();

    Topics& topics_;
    WebSocket& socket_;
    SubscriberOptions options_;
    std::vector<Topics::Map::iterator> subscriptions_;
    std::deque<Waiting> waiting_;
    std::size_t backlog_ = 0; ///< bytes of payload in `waiting_`
    std::uint64_t dropped_ = 0;
    bool too_slow_ = false;
    sync::Event published_;
    sync::Event slow_;
};

/// The conversation of a connection that may subscribe.
using TopicHandler = std::function<Task<Result<>>(WebSocket&, Subscriber&)>;

/// A handler of `ws::Server::serve` or `upgrade_handler` whose connections may subscribe. `topics`
/// must outlive the server.
[[nodiscard]] Handler with_topics(Topics& topics, TopicHandler handler,
                                  SubscriberOptions options = {});

} // namespace penstock::ws
