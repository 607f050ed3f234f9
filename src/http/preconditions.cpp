#include <penstock/http/preconditions.hpp>

namespace penstock::http {

namespace {

enum class Comparison { weak, strong };

/// Whether a list of entity tags, possibly spread over several fields, has the current one.
bool lists_tag(const Fields& fields, std::string_view name, std::string_view current,
               Comparison comparison) noexcept {
    const bool weak = current.starts_with("W/");
    if (weak && comparison == Comparison::weak) {
        current.remove_prefix(2);
    }
    for (const Field& field : fields) {
        if (!codec::http::equal_ignoring_case(field.name, name)) {
            continue;
        }
        std::string_view list = field.value;
        for (std::string_view tag = codec::http::next_list_element(list); !tag.empty();
             tag = codec::http::next_list_element(list)) {
            if (comparison == Comparison::weak && tag.starts_with("W/")) {
                tag.remove_prefix(2);
            }
            if (tag == "*") {
                return true;
            }
            if (tag == current && (comparison == Comparison::weak || !weak)) {
                return true;
            }
        }
    }
    return false;
}

std::optional<codec::http::Seconds> date_of(const Fields& fields, std::string_view name,
                                            codec::http::Seconds now) noexcept {
    const std::optional<std::string_view> value = fields.find(name);
    return value ? codec::http::parse_date(*value, now) : std::nullopt;
}

} // namespace

Status check_preconditions(Method method, const Fields& fields, const Validators& current,
                           codec::http::Seconds now) noexcept {
    const bool reads = method == Method::get || method == Method::head;
    if (fields.find("If-Match")) {
        if (!lists_tag(fields, "If-Match", current.entity_tag, Comparison::strong)) {
            return Status::precondition_failed;
        }
    } else if (const auto date = date_of(fields, "If-Unmodified-Since", now)) {
        if (current.modified && *current.modified > *date) {
            return Status::precondition_failed;
        }
    }
    if (fields.find("If-None-Match")) {
        if (lists_tag(fields, "If-None-Match", current.entity_tag, Comparison::weak)) {
            return reads ? Status::not_modified : Status::precondition_failed;
        }
    } else if (const auto date = date_of(fields, "If-Modified-Since", now)) {
        if (reads && current.modified && *current.modified <= *date) {
            return Status::not_modified;
        }
    }
    return Status::ok;
}

bool allows_range(const Fields& fields, const Validators& current,
                  codec::http::Seconds now) noexcept {
    const std::optional<std::string_view> condition = fields.find("If-Range");
    if (!condition) {
        return true;
    }
    if (condition->starts_with('"')) {
        return *condition == current.entity_tag;
    }
    return current.modified && codec::http::parse_date(*condition, now) == current.modified;
}

} // namespace penstock::http
