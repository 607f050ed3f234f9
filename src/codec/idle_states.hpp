#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

namespace penstock::codec {

/// States of a compressor between two uses: those of a thread, at most `count`. To make one costs
/// more than to use it for something short.
template <typename State, typename Key, std::size_t count = 4> class IdleStates {
public:
    /// Null if there is none of this kind.
    [[nodiscard]] std::unique_ptr<State> take(const Key& key) noexcept {
        for (Place& place : places_) {
            if (place.state && place.key == key) {
                return std::move(place.state);
            }
        }
        return nullptr;
    }

    /// Takes the place of another kind if there is no empty one: what is used now is needed again.
    void give(const Key& key, std::unique_ptr<State> state) noexcept {
        Place* chosen = &places_.front();
        for (Place& place : places_) {
            if (!place.state) {
                chosen = &place;
                break;
            }
            if (place.key != key) {
                chosen = &place;
            }
        }
        chosen->key = key;
        chosen->state = std::move(state);
    }

private:
    struct Place {
        Key key{};
        std::unique_ptr<State> state;
    };

    std::array<Place, count> places_;
};

} // namespace penstock::codec
