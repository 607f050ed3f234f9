#include <penstock/ws/topics.hpp>

#include <algorithm>
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
        std::ranges::count_if(found->second.subscribers, [&](Subscriber* subscriber) {
            return subscriber->take(found->second, message);
        }));
}

std::size_t Topics::subscribers(std::string_view topic) const noexcept {
    const auto found = topics_.find(topic);
    return found == topics_.end() ? 0 : found->second.subscribers.size();
}

Subscriber::~Subscriber() {
    while (!subscriptions_.empty()) {
        unsubscribe(std::string_view(subscriptions_.back()->first));
    }
}

bool Subscriber::subscribe(std::string_view topic) {
    if (std::ranges::any_of(subscriptions_,
                            [&](const auto& each) { return each->first == topic; })) {
        return false;
    }
    subscriptions_.reserve(subscriptions_.size() + 1);
    const auto place = topics_.topics_.try_emplace(std::string(topic)).first;
    place->second.subscribers.push_back(this);
    subscriptions_.push_back(place);
    return true;
}

bool Subscriber::unsubscribe(std::string_view topic) noexcept {
    const auto found = std::ranges::find_if(subscriptions_,
                                            [&](const auto& each) { return each->first == topic; });
    if (found == subscriptions_.end()) {
        return false;
    }
    const Topics::Map::iterator place = *found;
    subscriptions_.erase(found);
    std::vector<Subscriber*>& subscribers = place->second.subscribers;
    *std::ranges::find(subscribers, this) = subscribers.back();
    subscribers.pop_back();
    if (subscribers.empty()) {
        for (Waiting& each : waiting_) { // another topic may get the same address
            each.topic = each.topic == &place->second ? nullptr : each.topic;
        }
        topics_.topics_.erase(place);
    }
    return true;
}

bool Subscriber::has_room_for(std::size_t size) const noexcept {
    return waiting_.empty() || (waiting_.size() < options_.maximum_messages &&
                                backlog_ + size <= options_.maximum_backlog);
}

void Subscriber::drop_first() noexcept {
    backlog_ -= waiting_.front().message.payload().size();
    waiting_.pop_front();
    ++dropped_;
}

void Subscriber::give_up() noexcept {
    too_slow_ = true;
    dropped_ += waiting_.size() + 1;
    waiting_.clear();
    backlog_ = 0;
    slow_.set();
}

bool Subscriber::take(const Topics::Topic& topic, const SharedMessage& message) {
    if (too_slow_) {
        ++dropped_;
        return false;
    }
    const std::size_t size = message.payload().size();
    if (options_.slow_reader == SlowReader::coalesce) {
        const auto same = std::ranges::find(waiting_, &topic, &Waiting::topic);
        if (same != waiting_.end()) {
            backlog_ -= same->message.payload().size();
            waiting_.erase(same);
            ++dropped_;
        }
    }
    while (!has_room_for(size)) {
        switch (options_.slow_reader) {
        case SlowReader::drop_newest:
            ++dropped_;
            return false;
        case SlowReader::drop_oldest:
            drop_first();
            break;
        case SlowReader::close:
        case SlowReader::coalesce:
            give_up();
            return false;
        }
    }
    waiting_.push_back({.topic = &topic, .message = message});
    backlog_ += size;
    published_.set();
    return true;
}

Task<Result<>> Subscriber::deliver() {
    for (;;) {
        while (!waiting_.empty()) {
            const SharedMessage message = waiting_.front().message;
            backlog_ -= message.payload().size();
            waiting_.pop_front();
            co_await unwrap(socket_.send(message));
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
