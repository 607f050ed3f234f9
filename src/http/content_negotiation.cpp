#include "http/content_negotiation.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace penstock::http {

namespace {

constexpr int full_weight = 1000;

std::string_view trimmed(std::string_view text) noexcept {
    constexpr std::string_view blank = " \t";
    const std::size_t begin = text.find_first_not_of(blank);
    return begin == std::string_view::npos
               ? std::string_view()
               : text.substr(begin, text.find_last_not_of(blank) + 1 - begin);
}

/// "0.5" in thousandths (RFC 9110, section 12.4.2). Nothing if it is malformed.
std::optional<int> weight_of(std::string_view text) noexcept {
    constexpr std::size_t longest = 5;
    if (text.empty() || text.size() > longest || (text[0] != '0' && text[0] != '1') ||
        (text.size() > 1 && text[1] != '.')) {
        return std::nullopt;
    }
    int weight = text[0] == '1' ? full_weight : 0;
    int unit = full_weight / 10;
    for (const char digit : text.substr(std::min<std::size_t>(text.size(), 2))) {
        if (digit < '0' || digit > '9') {
            return std::nullopt;
        }
        weight += (digit - '0') * unit;
        unit /= 10;
    }
    return weight <= full_weight ? std::optional(weight) : std::nullopt;
}

struct Accepted {
    std::string_view name;
    int weight = full_weight;
};

/// An element of the list: "gzip;q=0.5". Nothing if it is malformed.
std::optional<Accepted> accepted_of(std::string_view element) noexcept {
    const std::size_t end = std::min(element.find(';'), element.size());
    Accepted accepted{.name = trimmed(element.substr(0, end))};
    if (end < element.size()) {
        const std::string_view parameter = trimmed(element.substr(end + 1));
        if (parameter.size() < 3 || (parameter[0] != 'q' && parameter[0] != 'Q') ||
            parameter[1] != '=') {
            return std::nullopt;
        }
        const std::optional<int> weight = weight_of(parameter.substr(2));
        if (!weight) {
            return std::nullopt;
        }
        accepted.weight = *weight;
    }
    return accepted;
}

bool names(std::string_view sent, std::string_view coding) noexcept {
    using codec::http::equal_ignoring_case;
    return equal_ignoring_case(sent, coding) ||
           (coding == "gzip" && equal_ignoring_case(sent, "x-gzip")); // RFC 9110, section 8.4.1.3
}

/// What the list says of a coding.
struct Weight {
    std::optional<int> by_name;
    int by_star = 0;
};

Weight weight_in(const Fields& fields, std::string_view coding) noexcept {
    Weight weight;
    for (const Field& field : fields) {
        if (!codec::http::equal_ignoring_case(field.name, "Accept-Encoding")) {
            continue;
        }
        std::string_view list = field.value;
        for (std::string_view element = codec::http::next_list_element(list); !element.empty();
             element = codec::http::next_list_element(list)) {
            const std::optional<Accepted> accepted = accepted_of(element);
            if (accepted && names(accepted->name, coding)) {
                weight.by_name = std::max(weight.by_name.value_or(0), accepted->weight);
            } else if (accepted && accepted->name == "*") {
                weight.by_star = accepted->weight;
            }
        }
    }
    return weight;
}

} // namespace

std::optional<std::size_t> negotiate_coding(const Fields& fields,
                                            std::span<const std::string_view> codings) noexcept {
    std::optional<std::size_t> best;
    // The body as it is, is preferred only by a client that says so by a higher weight.
    int best_weight = std::max(weight_in(fields, "identity").by_name.value_or(0) - 1, 0);
    for (std::size_t i = 0; i < codings.size(); ++i) {
        if (codings[i].empty()) {
            continue;
        }
        const Weight found = weight_in(fields, codings[i]);
        if (const int weight = found.by_name.value_or(found.by_star); weight > best_weight) {
            best = i;
            best_weight = weight;
        }
    }
    return best;
}

void append_vary(Headers& headers) {
    const std::string_view known = headers.find("Vary").value_or(std::string_view());
    if (known != "*" && !headers.has_token("Vary", "Accept-Encoding")) {
        headers.add("Vary", "Accept-Encoding");
    }
}

} // namespace penstock::http
