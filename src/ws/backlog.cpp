#include <penstock/ws/detail/backlog.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace penstock::ws::detail {

bool Backlog::has_room_for(const SubscriberOptions& options, std::size_t size) const noexcept {
    return this->size() == 0 ||
           (this->size() < options.maximum_messages && bytes_ + size <= options.maximum_backlog);
}

Backlog::Taken Backlog::take(const SubscriberOptions& options, const void* topic,
                             const SharedMessage& message) {
    if (too_slow_) {
        ++dropped_;
        return Taken::too_slow;
    }
    const std::size_t size = message.payload().size();
    if (options.slow_reader == SlowReader::coalesce && topic != nullptr) {
        drop_same(topic);
    }
    while (!has_room_for(options, size)) {
        switch (options.slow_reader) {
        case SlowReader::drop_newest:
            ++dropped_;
            return Taken::dropped;
        case SlowReader::drop_oldest:
            (void)next();
            ++dropped_;
            break;
        case SlowReader::close:
        case SlowReader::coalesce:
            too_slow_ = true;
            dropped_ += this->size() + 1;
            clear();
            return Taken::too_slow;
        }
    }
    waiting_.push_back({.topic = topic, .message = message});
    bytes_ += size;
    return Taken::yes;
}

void Backlog::drop_same(const void* topic) noexcept {
    const auto begin = waiting_.begin() + static_cast<std::ptrdiff_t>(first_);
    const auto same = std::find_if(begin, waiting_.end(),
                                   [&](const Waiting& each) { return each.topic == topic; });
    if (same != waiting_.end()) {
        bytes_ -= same->message.payload().size();
        waiting_.erase(same);
        ++dropped_;
    }
}

std::optional<SharedMessage> Backlog::next() noexcept {
    if (size() == 0) {
        return std::nullopt;
    }
    std::optional<SharedMessage> message(std::move(waiting_[first_].message));
    bytes_ -= message->payload().size();
    ++first_;
    if (first_ == waiting_.size()) {
        clear();
    } else if (first_ >= 64 && first_ * 2 >= waiting_.size()) { // each is moved at most once
        waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(first_));
        first_ = 0;
    }
    return message;
}

void Backlog::forget(const void* topic) noexcept {
    for (Waiting& each : waiting_) {
        each.topic = each.topic == topic ? nullptr : each.topic;
    }
}

void Backlog::clear() noexcept {
    std::vector<Waiting>().swap(waiting_); // an assignment would keep the memory
    first_ = 0;
    bytes_ = 0;
}

} // namespace penstock::ws::detail
