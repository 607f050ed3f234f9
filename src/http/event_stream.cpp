#include <penstock/http/event_stream.hpp>

#include <stdexcept>
#include <variant>

#include <penstock/task/race.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/unwrap.hpp>

namespace penstock::http {

namespace {

/// Appends each line of a text behind `begin`.
void append_lines(std::string& out, std::string_view begin, std::string_view text) {
    for (;;) {
        const std::size_t end = text.find_first_of("\r\n");
        out.append(begin).append(text.substr(0, end)).append("\n");
        if (end == std::string_view::npos) {
            return;
        }
        text.remove_prefix(end + (text.substr(end).starts_with("\r\n") ? 2 : 1));
    }
}

void require_one_line(std::string_view text, const char* what) {
    if (text.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos) {
        throw std::invalid_argument(std::string("the ") + what + " of an event, \"" +
                                    std::string(text) + "\", has a line end or NUL");
    }
}

} // namespace

std::string ServerEvent::to_string() const {
    std::string text;
    if (!event.empty()) {
        require_one_line(event, "type");
        text.append("event: ").append(event).append("\n");
    }
    if (id) {
        require_one_line(*id, "id");
        text.append("id: ").append(*id).append("\n");
    }
    if (retry) {
        if (retry->count() < 0) {
            throw std::invalid_argument("retry is " + std::to_string(retry->count()) +
                                        " ms: use 0 or more");
        }
        text.append("retry: ").append(std::to_string(retry->count())).append("\n");
    }
    if (data) {
        append_lines(text, "data: ", *data);
    }
    text += '\n';
    return text;
}

Task<Result<>> EventStream::send(ServerEvent event) {
    return write(event.to_string());
}

Task<Result<>> EventStream::comment(std::string_view text) {
    std::string lines;
    append_lines(lines, ": ", text);
    return write(std::move(lines));
}

Task<Result<>> EventStream::write(std::string text) {
    const auto guard = co_await unwrap(writing_.lock());
    co_await unwrap(response_.write_all(text));
    sent_ = std::chrono::steady_clock::now();
    co_return Result<>();
}

/// Ends with the error of a comment that cannot be sent.
Task<Result<>> EventStream::keep_alive() {
    for (;;) {
        const auto due = sent_ + options_.keep_alive;
        const auto now = std::chrono::steady_clock::now();
        if (now < due) {
            co_await unwrap(sleep_for(due - now));
        } else {
            co_await unwrap(write(":\n"));
        }
    }
}

Task<Result<>> EventSourceHandler::operator()(Request& request, Response& response) const {
    response.header("Content-Type", "text/event-stream");
    response.header("Cache-Control", "no-store");
    response.header("X-Accel-Buffering", "no");
    co_await unwrap(response.write_all("")); // the client learns that it is connected
    if (request.method() == Method::head) {
        co_return Result<>();
    }
    EventStream events(request, response, options_);
    events.sent_ = std::chrono::steady_clock::now();
    if (options_.keep_alive.count() <= 0) {
        co_return co_await source_(events);
    }
    const auto produce = [this, &events]() -> Task<Result<>> {
        Result<> ended = co_await source_(events);
        // A comment that is being sent must not be cut by the end of the race.
        const auto guard = co_await events.writing_.lock();
        co_return guard ? ended : failure(guard.error());
    };
    auto first = co_await race(produce(), events.keep_alive());
    co_return first.index() == 0 ? std::get<0>(first) : std::get<1>(first);
}

} // namespace penstock::http
