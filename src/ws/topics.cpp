#include <penstock/ws/topics.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <variant>

#include <penstock/task/race.hpp>
#include <penstock/task/unwrap.hpp>

namespace penstock::ws {

std::size_t Topics::publish(std::string_view topic, const SharedMessage& message) {
    const auto found = topics_.find(topic);
    if (found == topics_.end()) {
        return 0;
    }
    // An event resumes its waiter later, so the list does not change meanwhile.
    return static_cast<std::size_t>(
        std::ranges::count_if(found->second.subscribers, [&](detail::TopicMember* member) {
            return member->take(&found->second, message);
        }));
}

std::size_t Topics::subscribers(std::string_view topic) const noexcept {
    const auto found = topics_.find(topic);
    return found == topics_.end() ? 0 : found->second.subscribers.size();
}

detail::TopicMember::~TopicMember() {
    while (!places_.empty()) {
        leave(places_.size() - 1);
    }
}

bool detail::TopicMember::subscribe(Topics& topics, std::string_view topic) {
    if (std::ranges::any_of(places_, [&](const Place& each) {
            return each.topics == &topics && each.topic->first == topic;
        })) {
        return false;
    }
    places_.reserve(places_.size() + 1);
    Topics::Map::value_type& place = *topics.topics_.try_emplace(std::string(topic)).first;
    place.second.subscribers.push_back(this);
    places_.push_back({.topics = &topics, .topic = &place});
    return true;
}

bool detail::TopicMember::unsubscribe(Topics& topics, std::string_view topic) noexcept {
    const auto found = std::ranges::find_if(places_, [&](const Place& each) {
        return each.topics == &topics && each.topic->first == topic;
    });
    if (found == places_.end()) {
        return false;
    }
    forget(&found->topic->second);
    leave(static_cast<std::size_t>(found - places_.begin()));
    return true;
}

void detail::TopicMember::leave(std::size_t index) noexcept {
    const Place place = places_[index];
    places_.erase(places_.begin() + static_cast<std::ptrdiff_t>(index));
    std::vector<TopicMember*>& subscribers = place.topic->second.subscribers;
    *std::ranges::find(subscribers, this) = subscribers.back();
    subscribers.pop_back();
    if (subscribers.empty()) {
        place.topics->topics_.erase(place.topics->topics_.find(place.topic->first));
    }
}

bool Subscriber::take(const void* topic, const SharedMessage& message) {
    switch (backlog_.take(options_, topic, message)) {
    case detail::Backlog::Taken::yes:
        published_.set();
        return true;
    case detail::Backlog::Taken::dropped:
        return false;
    case detail::Backlog::Taken::too_slow:
        slow_.set();
        return false;
    }
    return false;
}

Task<Result<>> Subscriber::deliver() {
    for (;;) {
        while (const std::optional<SharedMessage> message = backlog_.next()) {
            co_await unwrap(socket_.send(*message));
        }
        published_.reset();
        co_await unwrap(published_.wait());
    }
}

Task<Result<>> Subscriber::close_when_slow() {
    co_await unwrap(slow_.wait());
    // Behind the frame that is being sent, whose rest cannot be left out.
    (void)co_await socket_.begin_close(codec::websocket::close_code::try_again_later,
                                       "the client reads too slowly");
    co_return Result<>();
}

Task<Result<>> Subscriber::run(Task<Result<>> conversation) {
    auto first = co_await race(std::move(conversation), deliver(), close_when_slow());
    co_return std::visit([](Result<>& ended) { return ended; }, first);
}

Handler with_topics(Topics& topics, TopicHandler handler, SubscriberOptions options) {
    return [&topics, handler = std::move(handler), options](WebSocket& socket) -> Task<Result<>> {
        Subscriber subscriber(topics, socket, options);
        co_return co_await subscriber.run(handler(socket, subscriber));
    };
}

} // namespace penstock::ws
