#include <penstock/ws/topics.hpp>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <penstock/task/race.hpp>
#include <penstock/task/unwrap.hpp>

namespace penstock::ws {

namespace {

/// A member of more topics has an index of its places. Among fewer, a search costs less.
constexpr std::size_t many_places = 16;

} // namespace

std::size_t Topics::publish(std::string_view topic, const SharedMessage& message) {
    const auto found = topics_.find(topic);
    if (found == topics_.end()) {
        return 0;
    }
    // An event resumes its waiter later, so the list does not change meanwhile.
    return static_cast<std::size_t>(
        std::ranges::count_if(found->second.subscribers, [&](const Subscription& each) {
            return each.member->take(&found->second, message);
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
    const auto known = topics.topics_.find(topic);
    if (known != topics.topics_.end() && place_in(&*known) != nowhere) {
        return false;
    }
    enter(topics, topic);
    return true;
}

bool detail::TopicMember::unsubscribe(Topics& topics, std::string_view topic) noexcept {
    const auto known = topics.topics_.find(topic);
    if (known == topics.topics_.end()) {
        return false;
    }
    const std::size_t place = place_in(&*known);
    if (place == nowhere) {
        return false;
    }
    forget(&known->second);
    leave(place);
    return true;
}

std::size_t detail::TopicMember::place_in(const void* topic) const noexcept {
    if (index_) {
        const auto found = index_->find(topic);
        return found == index_->end() ? nowhere : found->second;
    }
    const auto found = std::ranges::find_if(
        places_, [&](const Place& each) { return static_cast<const void*>(each.topic) == topic; });
    return found == places_.end() ? nowhere : static_cast<std::size_t>(found - places_.begin());
}

/// It is not there yet. Without memory, nothing has changed.
void detail::TopicMember::enter(Topics& topics, std::string_view topic) {
    const std::size_t place = places_.size();
    Topics::Map::value_type* entered = nullptr;
    places_.push_back({.topics = &topics, .topic = nullptr, .position = 0});
    try {
        const auto known = topics.topics_.find(topic);
        entered = known != topics.topics_.end()
                      ? &*known
                      : &*topics.topics_.try_emplace(std::string(topic)).first;
        if (index_) {
            index_->emplace(entered, place);
        } else if (place >= many_places) {
            auto index = std::make_unique<Index>();
            for (std::size_t each = 0; each < place; ++each) {
                index->emplace(places_[each].topic, each);
            }
            index->emplace(entered, place);
            index_ = std::move(index);
        }
        entered->second.subscribers.push_back({.member = this, .place = place});
    } catch (...) {
        if (entered != nullptr && index_) {
            index_->erase(entered);
        }
        if (entered != nullptr && entered->second.subscribers.empty()) {
            topics.topics_.erase(topics.topics_.find(topic));
        }
        places_.pop_back();
        throw;
    }
    places_.back().topic = entered;
    places_.back().position = entered->second.subscribers.size() - 1;
}

void detail::TopicMember::leave(std::size_t index) noexcept {
    const Place left = places_[index];
    std::vector<Topics::Subscription>& subscribers = left.topic->second.subscribers;
    // The last one of each list fills the gap.
    subscribers[left.position] = subscribers.back();
    const Topics::Subscription& moved = subscribers[left.position];
    moved.member->places_[moved.place].position = left.position;
    subscribers.pop_back();
    if (index_) {
        index_->erase(left.topic);
    }
    if (index + 1 < places_.size()) {
        places_[index] = places_.back();
        const Place& filled = places_[index];
        filled.topic->second.subscribers[filled.position].place = index;
        if (index_) {
            index_->find(filled.topic)->second = index;
        }
    }
    places_.pop_back();
    if (places_.size() < many_places / 2) {
        index_.reset();
    }
    if (subscribers.empty()) {
        left.topics->topics_.erase(left.topics->topics_.find(left.topic->first));
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

/// Ends by an error only, and not after the conversation.
Task<Result<>> Subscriber::deliver() {
    for (;;) {
        while (!conversed_) {
            const std::optional<SharedMessage> message = backlog_.next();
            if (!message) {
                break;
            }
            sending_ = true;
            const Result<> sent = co_await socket_.send(*message);
            sending_ = false;
            if (!sent && !conversed_) {
                co_return sent;
            }
        }
        whole_.set();
        published_.reset();
        co_await unwrap(published_.wait());
    }
}

/// A message that is being sent must not be cut by the end of the race: nothing can be sent behind
/// a part of a frame, and the peer would not get its close frame.
Task<Result<>> Subscriber::converse(Task<Result<>> conversation) {
    Result<> ended;
    std::exception_ptr thrown;
    try {
        ended = co_await std::move(conversation);
    } catch (...) {
        thrown = std::current_exception();
    }
    conversed_ = true;
    whole_.reset();
    if (sending_) { // within `Limits::write`
        (void)co_await whole_.wait();
    }
    if (thrown) {
        std::rethrow_exception(thrown);
    }
    co_return ended;
}

Task<Result<>> Subscriber::close_when_slow() {
    co_await unwrap(slow_.wait());
    // Behind the frame that is being sent, whose rest cannot be left out.
    (void)co_await socket_.begin_close(codec::websocket::close_code::try_again_later,
                                       "the client reads too slowly");
    co_return Result<>();
}

Task<Result<>> Subscriber::run(Task<Result<>> conversation) {
    auto first = co_await race(converse(std::move(conversation)), deliver(), close_when_slow());
    co_return std::visit([](Result<>& ended) { return ended; }, first);
}

Handler with_topics(Topics& topics, TopicHandler handler, SubscriberOptions options) {
    return [&topics, handler = std::move(handler), options](WebSocket& socket) -> Task<Result<>> {
        Subscriber subscriber(topics, socket, options);
        co_return co_await subscriber.run(handler(socket, subscriber));
    };
}

} // namespace penstock::ws
