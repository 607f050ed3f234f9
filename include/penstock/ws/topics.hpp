#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <penstock/detail/keyed_hash.hpp>
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

/// A subscriber as `Topics` knows it.
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

    /// Returns whether the member has taken the message. Must not change the topics. Throws
    /// `std::bad_alloc`.
    virtual bool take(const void* topic, const SharedMessage& message) = 0;
    /// The member has left the topic. A later topic may get the same address.
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

/// Publish and subscribe: a message goes to all connections that have subscribed to its topic. A
/// topic is a text; texts are compared byte by byte. A message is encoded once, and shared until
/// the last connection has sent it.
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
/// The object must outlive its subscribers.
///
/// Thread safety: only on the thread of one loop. A server on several loops needs a `Topics` for
/// each of them, and must publish to each.
class Topics {
public:
    Topics() = default;
    Topics(const Topics&) = delete;
    Topics& operator=(const Topics&) = delete;

    /// Queues the message for all subscribers of the topic, including the one whose handler
    /// publishes. Does not wait: each connection sends its queue by itself, in the order of the
    /// calls. Returns how many subscribers have taken the message. Throws `std::bad_alloc`.
    std::size_t publish(std::string_view topic, const SharedMessage& message);
    /// The same with a text message, which must be UTF-8.
    std::size_t publish(std::string_view topic, std::string_view text) {
        return publish(topic, SharedMessage::text(text));
    }

    /// How many connections have subscribed to the topic.
    [[nodiscard]] std::size_t subscribers(std::string_view topic) const noexcept;

private:
    friend class detail::TopicMember;

    /// A member's part in a topic. Each end knows where the other one is, so that leaving takes
    /// constant time.
    struct Subscription {
        detail::TopicMember* member;
        std::size_t place; ///< among those of the member
    };
    struct Topic {
        std::vector<Subscription> subscribers;
    };
    /// Clients may choose the names.
    using Map =
        std::unordered_map<std::string, Topic, penstock::detail::KeyedHash, std::equal_to<>>;

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
    /// `topics` and `socket` must outlive this object.
    Subscriber(Topics& topics, WebSocket& socket, const SubscriberOptions& options = {}) noexcept
        : topics_(topics), socket_(socket), options_(options) {}
    ~Subscriber() = default;
    Subscriber(const Subscriber&) = delete;
    Subscriber& operator=(const Subscriber&) = delete;

    [[nodiscard]] Topics& topics() const noexcept { return topics_; }

    /// From now on the connection gets what is published to the topic. Returns false if it had
    /// subscribed before. This and `unsubscribe` take constant time, however many connections and
    /// topics there are. Throws `std::bad_alloc`.
    bool subscribe(std::string_view topic) { return TopicMember::subscribe(topics_, topic); }
    /// Ends the subscription. Messages that are queued are still sent. Returns false if the
    /// connection had not subscribed.
    bool unsubscribe(std::string_view topic) noexcept {
        return TopicMember::unsubscribe(topics_, topic);
    }

    /// How many messages were dropped because the peer reads slowly.
    [[nodiscard]] std::uint64_t dropped() const noexcept { return backlog_.dropped(); }
    /// How many messages are queued.
    [[nodiscard]] std::size_t waiting() const noexcept { return backlog_.size(); }

    /// Runs the conversation, and sends beside it what is published. When the conversation ends,
    /// this finishes the message that is being sent, drops the queue, and returns the
    /// conversation's result. It ends earlier with an error of sending, or when the peer reads too
    /// slowly for `SubscriberOptions`. The latter is a success: the close frame was sent, or could
    /// not be sent within `Limits::close`.
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
