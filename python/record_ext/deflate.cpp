#include "deflate.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace penstock::python::record {

namespace {

constexpr std::size_t literals = 286; ///< symbols of bytes, of the end, and of lengths
constexpr std::size_t distances = 30;
constexpr std::size_t end_of_block = 256;
constexpr std::size_t longest_code = 15;
constexpr std::size_t shortest_match = 4;
constexpr std::size_t longest_match = 258;
constexpr std::size_t window = 32768;
constexpr int hash_bits = 13;
constexpr std::size_t block_tokens = std::size_t{1} << 16;
constexpr std::uint32_t match_flag = std::uint32_t{1} << 31;

/// The first value and the number of further bits of each symbol (RFC 1951, 3.2.5).
struct Range {
    std::uint16_t base;
    std::uint8_t bits;
};

constexpr std::array<Range, 29> length_ranges = [] {
    std::array<Range, 29> ranges{};
    std::uint16_t base = 3;
    for (std::size_t i = 0; i < 28; ++i) {
        const auto bits = static_cast<std::uint8_t>(i < 8 ? 0 : i / 4 - 1);
        ranges[i] = {base, bits};
        base = static_cast<std::uint16_t>(base + (1U << bits));
    }
    ranges[28] = {258, 0};
    return ranges;
}();

constexpr std::array<Range, distances> distance_ranges = [] {
    std::array<Range, distances> ranges{};
    std::uint16_t base = 1;
    for (std::size_t i = 0; i < distances; ++i) {
        const auto bits = static_cast<std::uint8_t>(i < 4 ? 0 : i / 2 - 1);
        ranges[i] = {base, bits};
        base = static_cast<std::uint16_t>(base + (1U << bits));
    }
    return ranges;
}();

/// The symbol of each length, without 257.
constexpr std::array<std::uint8_t, longest_match + 1> length_symbols = [] {
    std::array<std::uint8_t, longest_match + 1> symbols{};
    for (std::size_t i = 0; i < length_ranges.size(); ++i) {
        const std::size_t end = i + 1 < length_ranges.size() ? length_ranges[i + 1].base : 259;
        for (std::size_t length = length_ranges[i].base; length < end; ++length) {
            symbols[length] = static_cast<std::uint8_t>(i);
        }
    }
    return symbols;
}();

std::size_t distance_symbol(std::uint32_t distance) noexcept {
    const std::uint32_t less = distance - 1;
    if (less < 4) {
        return less;
    }
    const auto bits = static_cast<std::uint32_t>(std::bit_width(less)) - 1;
    return 2 * bits + (less >> (bits - 1) & 1U);
}

/// Bits, the first one lowest. Its memory must have room for 8 bytes more than are written.
class BitWriter {
public:
    explicit BitWriter(char* out) noexcept : out_(out) {}

    /// Adds at most 32 bits.
    void put(std::uint64_t bits, unsigned count) noexcept {
        held_ |= bits << count_;
        count_ += count;
        std::memcpy(out_, &held_, sizeof(held_));
        const unsigned whole = count_ / 8;
        out_ += whole;
        held_ >>= 8 * whole;
        count_ -= 8 * whole;
    }

    [[nodiscard]] char* finish() noexcept { return count_ > 0 ? out_ + 1 : out_; }

private:
    char* out_;
    std::uint64_t held_ = 0;
    unsigned count_ = 0;
};

static_assert(std::endian::native == std::endian::little);

/// The prefix code of one alphabet.
template <std::size_t size> struct Code {
    std::array<std::uint16_t, size> bits{};
    std::array<std::uint8_t, size> lengths{};
};

/// How many codes of each length a Huffman code for `sorted` frequencies, rising, has.
std::array<std::size_t, longest_code + 1>
code_counts(const std::vector<std::uint32_t>& sorted) noexcept {
    // The tree of A. Moffat and J. Katajainen, "In-place calculation of minimum-redundancy codes":
    // leaves and nodes in one array, which holds parents first and depths then.
    std::vector<std::uint32_t> tree(sorted);
    const std::size_t many = tree.size();
    std::array<std::size_t, longest_code + 1> counts{};
    if (many == 1) {
        counts[1] = 1;
        return counts;
    }
    std::size_t leaf = 0;
    std::size_t root = 0;
    for (std::size_t next = 0; next + 1 < many; ++next) {
        std::uint32_t sum = 0;
        for (int i = 0; i < 2; ++i) {
            if (leaf >= many || (root < next && tree[root] < tree[leaf])) {
                sum += tree[root];
                tree[root++] = static_cast<std::uint32_t>(next);
            } else {
                sum += tree[leaf++];
            }
        }
        tree[next] = sum;
    }
    tree[many - 2] = 0;
    for (std::size_t next = many - 2; next-- > 0;) {
        tree[next] = tree[tree[next]] + 1;
    }
    std::size_t open = 1;
    std::uint32_t depth = 0;
    std::size_t node = many - 1; // the nodes from here on are counted
    while (open > 0) {
        std::size_t inner = 0;
        while (node > 0 && tree[node - 1] == depth) {
            ++inner;
            --node;
        }
        counts[std::min<std::size_t>(depth, longest_code)] += open - inner;
        open = 2 * inner;
        ++depth;
    }
    // Codes that are too long make the code overfull: shorter ones are lengthened in exchange.
    std::size_t used = 0;
    for (std::size_t length = 1; length <= longest_code; ++length) {
        used += counts[length] << (longest_code - length);
    }
    for (; used > std::size_t{1} << longest_code; --used) {
        --counts[longest_code];
        std::size_t length = longest_code - 1;
        while (counts[length] == 0) {
            --length;
        }
        --counts[length];
        counts[length + 1] += 2;
    }
    return counts;
}

template <std::size_t size>
Code<size> code_for(const std::array<std::uint32_t, size>& frequencies) {
    std::vector<std::uint16_t> symbols;
    for (std::size_t symbol = 0; symbol < size; ++symbol) {
        if (frequencies[symbol] > 0) {
            symbols.push_back(static_cast<std::uint16_t>(symbol));
        }
    }
    std::sort(symbols.begin(), symbols.end(), [&](std::uint16_t one, std::uint16_t other) {
        return frequencies[one] != frequencies[other] ? frequencies[one] < frequencies[other]
                                                      : one < other;
    });
    std::vector<std::uint32_t> sorted(symbols.size());
    std::transform(symbols.begin(), symbols.end(), sorted.begin(),
                   [&](std::uint16_t symbol) { return frequencies[symbol]; });
    const auto counts = code_counts(sorted);
    Code<size> code;
    std::size_t place = symbols.size(); // the most frequent ones are last
    for (std::size_t length = 1; length <= longest_code; ++length) {
        for (std::size_t i = 0; i < counts[length]; ++i) {
            code.lengths[symbols[--place]] = static_cast<std::uint8_t>(length);
        }
    }
    std::array<unsigned, longest_code + 2> next{};
    for (std::size_t length = 1; length <= longest_code; ++length) {
        next[length + 1] = (next[length] + static_cast<unsigned>(counts[length])) << 1U;
    }
    for (std::size_t symbol = 0; symbol < size; ++symbol) {
        const std::size_t length = code.lengths[symbol];
        if (length == 0) {
            continue;
        }
        unsigned forward = next[length]++;
        unsigned reversed = 0;
        for (std::size_t i = 0; i < length; ++i) {
            reversed = reversed << 1U | (forward & 1U);
            forward >>= 1U;
        }
        code.bits[symbol] = static_cast<std::uint16_t>(reversed);
    }
    return code;
}

/// A block's literals and matches, and how often each symbol is in it.
class Block {
public:
    Block() { tokens_.reserve(block_tokens); }

    void add_literal(unsigned char byte) {
        tokens_.push_back(byte);
        ++literal_counts_[byte];
    }

    void add_match(std::size_t length, std::uint32_t distance) {
        tokens_.push_back(match_flag | static_cast<std::uint32_t>(length) << 16U | (distance - 1));
        ++literal_counts_[end_of_block + 1 + length_symbols[length]];
        ++distance_counts_[distance_symbol(distance)];
    }

    [[nodiscard]] bool is_full() const noexcept { return tokens_.size() >= block_tokens; }

    /// Writes the block and begins the next one.
    void write(BitWriter& bits, bool last) {
        ++literal_counts_[end_of_block];
        // Two codes at least: some readers refuse less.
        ++distance_counts_[0];
        ++distance_counts_[1];
        const auto literal_code = code_for(literal_counts_);
        const auto distance_code = code_for(distance_counts_);
        write_head(bits, literal_code, distance_code, last);
        for (const std::uint32_t token : tokens_) {
            if ((token & match_flag) == 0) {
                bits.put(literal_code.bits[token], literal_code.lengths[token]);
                continue;
            }
            const std::size_t length = token >> 16U & 0x7FFFU;
            const std::size_t symbol = length_symbols[length];
            const std::size_t place = end_of_block + 1 + symbol;
            const Range range = length_ranges[symbol];
            std::uint64_t held = literal_code.bits[place];
            const unsigned size = literal_code.lengths[place];
            held |= static_cast<std::uint64_t>(length - range.base) << size;
            bits.put(held, size + range.bits);
            const std::uint32_t distance = (token & 0xFFFFU) + 1;
            const std::size_t far = distance_symbol(distance);
            held = distance_code.bits[far];
            const unsigned width = distance_code.lengths[far];
            held |= static_cast<std::uint64_t>(distance - distance_ranges[far].base) << width;
            bits.put(held, width + distance_ranges[far].bits);
        }
        bits.put(literal_code.bits[end_of_block], literal_code.lengths[end_of_block]);
        tokens_.clear();
        literal_counts_.fill(0);
        distance_counts_.fill(0);
    }

private:
    /// The lengths of the codes, each in four bits: the code of the code lengths has 16 symbols, 0
    /// to 15, of the same length. Runs of zeros are not shortened, as 160 bytes a block are little.
    static void write_head(BitWriter& bits, const Code<literals>& literal_code,
                           const Code<distances>& distance_code, bool last) noexcept {
        bits.put(last ? 1 : 0, 1);
        bits.put(2, 2); // with codes of its own
        bits.put(literals - 257, 5);
        bits.put(distances - 1, 5);
        bits.put(19 - 4, 4);
        for (int i = 0; i < 3; ++i) {
            bits.put(0, 3); // no runs
        }
        for (int i = 0; i < 16; ++i) {
            bits.put(4, 3);
        }
        const auto put_length = [&](unsigned length) {
            bits.put((length & 1U) << 3U | (length & 2U) << 1U | (length & 4U) >> 1U |
                         (length & 8U) >> 3U,
                     4);
        };
        std::for_each(literal_code.lengths.begin(), literal_code.lengths.end(), put_length);
        std::for_each(distance_code.lengths.begin(), distance_code.lengths.end(), put_length);
    }

    std::vector<std::uint32_t> tokens_;
    std::array<std::uint32_t, literals> literal_counts_{};
    std::array<std::uint32_t, distances> distance_counts_{};
};

template <typename T> T load(const char* from) noexcept {
    T value;
    std::memcpy(&value, from, sizeof(value));
    return value;
}

std::size_t hash_at(const char* text) noexcept {
    return load<std::uint32_t>(text) * 2654435761U >> (32 - hash_bits);
}

/// How many bytes from `one` and `other` on are the same, of at most `most`.
std::size_t same_bytes(const char* one, const char* other, std::size_t most) noexcept {
    std::size_t size = 0;
    while (size + 8 <= most) {
        const auto differing = load<std::uint64_t>(one + size) ^ load<std::uint64_t>(other + size);
        if (differing != 0) {
            return size + static_cast<std::size_t>(std::countr_zero(differing)) / 8;
        }
        size += 8;
    }
    while (size < most && one[size] == other[size]) {
        ++size;
    }
    return size;
}

} // namespace

char* deflate(char* out, std::string_view text) {
    BitWriter bits(out);
    Block block;
    // The last place of each hash, plus one. Places are looked at again before they are believed.
    const auto places = std::make_unique<std::array<std::uint32_t, std::size_t{1} << hash_bits>>();
    const char* const begin = text.data();
    const std::size_t size = text.size();
    std::size_t at = 0;
    while (at < size) {
        if (block.is_full()) {
            block.write(bits, false);
        }
        if (at + shortest_match <= size) {
            std::uint32_t& place = (*places)[hash_at(begin + at)];
            const std::size_t before = place;
            place = static_cast<std::uint32_t>(at + 1);
            if (before != 0 && at + 1 - before <= window &&
                load<std::uint32_t>(begin + before - 1) == load<std::uint32_t>(begin + at)) {
                const std::size_t most = std::min(longest_match, size - at);
                const std::size_t length = same_bytes(begin + before - 1, begin + at, most);
                block.add_match(length, static_cast<std::uint32_t>(at + 1 - before));
                at += length;
                // The end of a match is where the next one often begins.
                if (at + 2 <= size) {
                    (*places)[hash_at(begin + at - 2)] = static_cast<std::uint32_t>(at - 1);
                }
                continue;
            }
        }
        block.add_literal(static_cast<unsigned char>(begin[at]));
        ++at;
    }
    block.write(bits, true);
    return bits.finish();
}

} // namespace penstock::python::record
