#include "text/special_tokens.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

namespace gyre::text {
namespace {

// In `taken`: values >= 0 are the index of a special token that starts here.
constexpr int32_t kFree = -1;
constexpr int32_t kInside = -2;     // part of a special token
constexpr int32_t kSwallowed = -3;  // white space that goes with the token before

constexpr int kRankShift = 40;  // below: the position

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

size_t pair_at(std::string_view text, size_t pos) {
  const size_t second = pos + 1 < text.size() ? static_cast<unsigned char>(text[pos + 1]) : 0;
  return static_cast<unsigned char>(text[pos]) * size_t{256} + second;
}

}  // namespace

void SpecialTokens::build(const Vocab& vocab) {
  for (TokenId id = 0; id < vocab.size(); ++id) {
    const uint8_t kind = vocab.kind(id);
    if (!(kind & (kControl | kUserDefined | kUnknown)) || vocab.text(id).empty()) continue;
    const bool user_defined = !(kind & (kControl | kUnknown));
    any_user_defined_ |= user_defined;
    specials_.push_back({vocab.text(id), id, 0, user_defined, (kind & kSwallowsSpace) != 0});
  }
  std::sort(specials_.begin(), specials_.end(),
            [](const Special& a, const Special& b) { return a.text < b.text; });
  by_rank_.resize(specials_.size());
  std::iota(by_rank_.begin(), by_rank_.end(), 0u);
  std::sort(by_rank_.begin(), by_rank_.end(), [&](uint32_t a, uint32_t b) {
    const Special &x = specials_[a], &y = specials_[b];
    return x.text.size() != y.text.size() ? x.text.size() > y.text.size() : x.id < y.id;
  });
  for (size_t rank = 0; rank < by_rank_.size(); ++rank) {
    specials_[by_rank_[rank]].rank = static_cast<uint32_t>(rank);
  }
  size_t i = 0;
  for (size_t byte = 0; byte < 256; ++byte) {
    first_[byte] = static_cast<uint32_t>(i);
    for (; i < specials_.size() && static_cast<unsigned char>(specials_[i].text[0]) == byte; ++i) {
      if (specials_[i].text.size() > 1) {
        starts_.set(pair_at(specials_[i].text, 0));
      } else {
        for (size_t second = 0; second < 256; ++second) starts_.set(byte * 256 + second);
      }
    }
  }
  first_[256] = static_cast<uint32_t>(specials_.size());
}

int32_t SpecialTokens::longest_at(std::string_view text, size_t pos, size_t below, bool all) const {
  // [lo, hi): tokens that agree with the text in `depth` bytes; the shortest come first.
  const unsigned char first = static_cast<unsigned char>(text[pos]);
  size_t lo = first_[first], hi = first_[first + size_t{1}];
  int32_t best = -1;
  for (size_t depth = 1; lo < hi; ++depth) {
    if (specials_[lo].text.size() == depth) {
      if (depth >= below) return best;
      if (all || specials_[lo].user_defined) best = static_cast<int32_t>(lo);
      if (++lo == hi) break;
    }
    if (pos + depth == text.size()) break;
    const unsigned char byte = static_cast<unsigned char>(text[pos + depth]);
    const auto byte_of = [&](size_t i) {
      return static_cast<unsigned char>(specials_[i].text[depth]);
    };
    if (byte_of(lo) == byte && byte_of(hi - 1) == byte) continue;
    const auto begin = specials_.begin() + static_cast<ptrdiff_t>(lo);
    const auto end = specials_.begin() + static_cast<ptrdiff_t>(hi);
    const auto less = [&](const Special& s, unsigned char b) {
      return static_cast<unsigned char>(s.text[depth]) < b;
    };
    const auto from = std::lower_bound(begin, end, byte, less);
    const auto to =
        byte == 255 ? end : std::lower_bound(from, end, static_cast<unsigned char>(byte + 1), less);
    lo = static_cast<size_t>(from - specials_.begin());
    hi = static_cast<size_t>(to - specials_.begin());
  }
  return best;
}

void SpecialTokens::take(std::string_view text, std::vector<uint64_t> found,
                         std::vector<int32_t>& taken, bool all) const {
  std::sort(found.begin(), found.end());
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> later;
  for (size_t next = 0; next < found.size() || !later.empty();) {
    uint64_t entry;
    if (later.empty() || (next < found.size() && found[next] <= later.top())) {
      entry = found[next++];
    } else {
      entry = later.top();
      later.pop();
    }
    const size_t pos = entry & ((uint64_t{1} << kRankShift) - 1);
    const size_t index = by_rank_[entry >> kRankShift];
    const size_t size = specials_[index].text.size();
    if (taken[pos] != kFree) continue;
    // Whatever was taken before is at least as long, so an overlap covers one of the two ends.
    if (taken[pos + size - 1] != kFree) {
      const int32_t shorter = longest_at(text, pos, size, all);
      if (shorter >= 0) {
        later.push(uint64_t{specials_[static_cast<size_t>(shorter)].rank} << kRankShift | pos);
      }
      continue;
    }
    std::fill_n(taken.begin() + static_cast<ptrdiff_t>(pos), size, kInside);
    taken[pos] = static_cast<int32_t>(index);
    if (!specials_[index].swallows_space) continue;
    for (size_t p = pos + size; p < text.size() && taken[p] == kFree && is_space(text[p]); ++p) {
      taken[p] = kSwallowed;
    }
  }
}

std::vector<Fragment> SpecialTokens::partition(std::string_view text, bool all) const {
  std::vector<Fragment> out;
  if (text.empty()) return out;
  std::vector<uint64_t> found;
  if (!specials_.empty() && (all || any_user_defined_)) {
    for (size_t pos = 0; pos < text.size(); ++pos) {
      if (!starts_[pair_at(text, pos)]) continue;
      const int32_t index = longest_at(text, pos, SIZE_MAX, all);
      if (index >= 0) {
        found.push_back(uint64_t{specials_[static_cast<size_t>(index)].rank} << kRankShift | pos);
      }
    }
  }
  if (found.empty()) {
    out.push_back({text});
    return out;
  }
  std::vector<int32_t> taken(text.size(), kFree);
  take(text, std::move(found), taken, all);
  for (size_t pos = 0; pos < text.size();) {
    size_t end = pos + 1;
    if (taken[pos] >= 0) {
      const Special& special = specials_[static_cast<size_t>(taken[pos])];
      out.push_back({special.text, special.id});
      end = pos + special.text.size();
    } else {
      const int32_t state = taken[pos];
      while (end < text.size() && taken[end] == state) ++end;
      if (state == kFree) out.push_back({text.substr(pos, end - pos)});
    }
    pos = end;
  }
  return out;
}

}  // namespace gyre::text
