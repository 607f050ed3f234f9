#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/task.hpp>
#include <penstock/ws/detail/backlog.hpp>
#include <penstock/ws/handler.hpp>
#include <penstock/ws/shared_message.hpp>
#include <penstock/ws/slow_reader.hpp>
#include <penstock/ws/web_socket.hpp>

namespace penstock::ws {

class Topics;

namespace detail {

/// Who gets what is published, in `Topics`.
class TopicMember {
public:
    TopicMember(const TopicMember&) = delete;
    TopicMember& operator=(const TopicMember&) = delete;

    /// `Subscriber::subscribe`.
    bool subscribe(Topics& topics, std::string_view topic);
    bool unsubscribe(Topics& topics, std::string_view topic) noexcept;

protected:
    TopicMember() = default;
    ~TopicMember();

private:
    friend class ws::Topics;

    struct Place;
    using Index = std::unordered_map<const void*, std::size_t>;
    static constexpr std::size_t nowhere = ~std::size_t{0};

    /// Whether it has taken the message. It must not change the topics. Throws `std::bad_alloc`.
    virtual bool take(const void* topic, const SharedMessage& message) = 0;
    /// It has left the topic, whose address another one may get.
    virtual void forget(const void* topic) noexcept = 0;

    /// `topic` is an entry of `Topics::topics_`. `nowhere` if the member is not there.
    [[nodiscard]] std::size_t place_in(const void* topic) const noexcept;
    void enter(Topics& topics, std::string_view topic);
    void leave(std::size_t index) noexcept;

    std::vector<Place> places_;
    /// Where each topic is among many places. Null while they are few.
    std::unique_ptr<Index> index_;
};

} // namespace detail

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

    /// Gives the message to all subscribers of the topic, even to the one whose handler publishes.
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
    friend class detail::TopicMember;

    struct Hash : std::hash<std::string_view> {
        using is_transparent = void;
    };
    /// A member's part in a topic. Each end knows where the other one is, so that leaving takes
    /// constant time.
    struct Subscription {
        detail::TopicMember* member;
        std::size_t place; ///< among those of the member
    };
    struct Topic {
        std::vector<Subscription> subscribers;
    };
    using Map = std::unordered_map<std::string, Topic, Hash, std::equal_to<>>;

    Map topics_; // a topic without subscribers is removed
};

struct detail::TopicMember::Place {
    Topics* topics;
    Topics::Map::value_type* topic; ///< it stays where it is, which an iterator need not
    std::size_t position;           ///< among the subscribers of the topic
};

/// A connection's part in `Topics`. `with_topics` makes one for each connection.
///
/// Thread safety: that of `Topics`.
class Subscriber final : private detail::TopicMember {
public:
    /// Both must outlive it.
    Subscriber(Topics& topics, WebSocket& socket, const SubscriberOptions& options = {}) noexcept
        : topics_(topics), socket_(socket), options_(options) {}
    ~Subscriber() = default;
    Subscriber(const Subscriber&) = delete;
    Subscriber& operator=(const Subscriber&) = delete;

    [[nodiscard]] Topics& topics() const noexcept { return topics_; }

    /// From now on the connection gets what is published there. False if it did already. This and
    /// `unsubscribe` take constant time, however many connections and topics there are. Throws
    /// `std::bad_alloc`.
    bool subscribe(std::string_view topic) { return TopicMember::subscribe(topics_, topic); }
    /// What waits already is sent all the same. False if it had not subscribed.
    bool unsubscribe(std::string_view topic) noexcept {
        return TopicMember::unsubscribe(topics_, topic);
    }

    /// How many messages it did not get because it was slow.
    [[nodiscard]] std::uint64_t dropped() const noexcept { return backlog_.dropped(); }
    /// How many messages wait to be sent.
    [[nodiscard]] std::size_t waiting() const noexcept { return backlog_.size(); }

    /// Runs the conversation, and sends beside it what is published. Ends with it, when the message
    /// that is being sent is whole; what waits then is not sent. Ends also with an error of
    /// sending, or when the reader is too slow for its policy. The end by slowness is a success:
    /// the close frame was sent, or could not be within `Limits::close`.
    [[nodiscard]] Task<Result<>> run(Task<Result<>> conversation);

private:
    bool take(const void* topic, const SharedMessage& message) override;
    void forget(const void* topic) noexcept override { backlog_.forget(topic); }
    [[nodiscard]] Task<Result<>> deliver();
    [[nodiscard]] Task<Result<>> converse(Task<Result<>> conversation);
    [[nodiscard]] Task<Result<>> close_when_slow();

    Topics& topics_;
    WebSocket& socket_;
    SubscriberOptions options_;
    detail::Backlog backlog_;
    sync::Event published_;
    sync::Event slow_;
    sync::Event whole_;      ///< no message is sent now
    bool sending_ = false;   ///< a message
    bool conversed_ = false; ///< the conversation has ended
};

/// The conversation of a connection that may subscribe.
using TopicHandler = std::function<Task<Result<>>(WebSocket&, Subscriber&)>;

/// A handler of `ws::Server::serve` or `upgrade_handler` whose connections may subscribe. `topics`
/// must outlive the server.
[[nodiscard]] Handler with_topics(Topics& topics, TopicHandler handler,
                                  SubscriberOptions options = {});

} // namespace penstock::ws
