#include "kv/state_file.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <tuple>

#include "kernels/attention.h"

namespace gyre::kv {
namespace {

constexpr size_t kLine = 64;
constexpr char kMagic[8] = {'G', 'Y', 'R', 'E', 'S', 'T', 'A', 'T'};
constexpr uint32_t kByteOrder = 0x01020304;
constexpr size_t kMostText = 65535;
constexpr uint32_t kMostPages = (1u << 31) / kernels::kPagePositions;

constexpr size_t round_up(size_t n, size_t to) {
  return (n + to - 1) / to * to;
}

// What the checksum of the head covers lies before and behind it.
struct Prefix {
  char magic[8];
  uint32_t byte_order, version;
  uint64_t file_bytes, head_bytes;
  uint64_t checksum;
};
static_assert(sizeof(Prefix) == 40);

struct PartEntry {
  uint32_t layer, kind, index, zero;
  uint64_t bytes, checksum;
};
static_assert(sizeof(PartEntry) == 32);

uint64_t sum_of(std::span<const std::byte> bytes, uint64_t seed = 0) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t head_sum(std::span<const std::byte> head) {
  constexpr size_t at = offsetof(Prefix, checksum);
  return sum_of(head.subspan(at + sizeof(uint64_t)), sum_of(head.first(at)));
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

bool printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

// A text from a file as it may stand in an error.
std::string shown(std::string_view text) {
  constexpr size_t kMost = 120;
  return text.size() <= kMost ? std::string(text) : std::string(text.substr(0, kMost)) + "...";
}

}  // namespace

// The numbers that describe the rest of the head, behind the prefix.
struct StateFile::Head {
  uint32_t contract_version, length, start, tokens, parts, page_positions;
  uint32_t text_bytes[4];  // model, scheme, signature, note
  uint32_t coded;          // 0 or 1
  uint32_t zero[11];

  static constexpr size_t kEnd = sizeof(Prefix) + 88;
  size_t tokens_offset() const {
    size_t at = kEnd;
    for (uint32_t bytes : text_bytes) at += bytes;
    return round_up(at, 8);
  }
  size_t parts_offset() const {
    return round_up(tokens_offset() + size_t{tokens} * sizeof(int32_t), 8);
  }
  size_t end() const { return round_up(parts_offset() + size_t{parts} * sizeof(PartEntry), kLine); }
};

std::string_view state_part_name(StatePartKind kind) {
  constexpr std::string_view kNames[] = {"plain page", "coded page", "anchor", "recurrent state"};
  static_assert(std::size(kNames) == kStatePartKinds);
  return kNames[static_cast<uint32_t>(kind)];
}

bool StatePart::before(const StatePart& other) const {
  return std::tie(layer, kind, index) < std::tie(other.layer, other.kind, other.index);
}

namespace {

Status check_contents(const StateContents& contents) {
  const auto refuse = [](std::string_view what, std::string_view value, std::string_view expected) {
    return fail(ErrorCode::internal, "state file: " + std::string(what), value, expected);
  };
  for (std::string_view text :
       {std::string_view(contents.label.model), std::string_view(contents.label.scheme),
        std::string_view(contents.label.signature), contents.note}) {
    if (text.size() > kMostText || !printable(text))
      return refuse("text", std::to_string(text.size()) + " bytes",
                    "printable ASCII, at most 65535 bytes");
  }
  constexpr size_t kMost = 1u << 31;
  if (contents.tokens.size() >= kMost || contents.parts.size() >= kMost)
    return refuse("counts", std::to_string(contents.tokens.size()), "below 2^31");
  if (contents.length > contents.tokens.size())
    return refuse("length", std::to_string(contents.length),
                  "at most the " + std::to_string(contents.tokens.size()) + " tokens");
  for (int32_t id : contents.tokens) {
    if (id < 0) return refuse("token id", std::to_string(id), "0 or more");
  }
  for (size_t i = 0; i < contents.parts.size(); ++i) {
    const StatePart& part = contents.parts[i];
    if (part.bytes.empty() || part.index >= kMostPages ||
        (i != 0 && !contents.parts[i - 1].before(part)))
      return refuse("part", std::to_string(i), "bytes, in ascending order");
  }
  return {};
}

}  // namespace

// Head, then each part and its padding, as pieces; `head` owns the first.
class StateWriter {
 public:
  Status make(const StateContents& contents) {
    GYRE_TRY(check_contents(contents));
    StateFile::Head head{};
    head.contract_version = contents.label.contract_version;
    head.length = contents.length;
    head.start = contents.start;
    head.coded = contents.coded;
    head.tokens = static_cast<uint32_t>(contents.tokens.size());
    head.parts = static_cast<uint32_t>(contents.parts.size());
    head.page_positions = kernels::kPagePositions;
    const std::string_view texts[] = {contents.label.model, contents.label.scheme,
                                      contents.label.signature, contents.note};
    for (size_t i = 0; i < 4; ++i) head.text_bytes[i] = static_cast<uint32_t>(texts[i].size());

    GYRE_ASSIGN(head_, Array<std::byte>::make(head.end(), "state file head"));
    GYRE_ASSIGN(pieces_, Array<std::span<const std::byte>>::make(1 + 2 * contents.parts.size(),
                                                                 "state file pieces"));
    std::memcpy(head_.data() + sizeof(Prefix), &head, sizeof head);
    std::byte* at = head_.data() + StateFile::Head::kEnd;
    for (std::string_view text : texts) at = std::copy_n(as_bytes(text), text.size(), at);
    if (!contents.tokens.empty())
      std::memcpy(head_.data() + head.tokens_offset(), contents.tokens.data(),
                  contents.tokens.size_bytes());
    uint64_t total = head.end();
    for (size_t i = 0; i < contents.parts.size(); ++i) {
      const StatePart& part = contents.parts[i];
      const PartEntry entry = {part.layer,        static_cast<uint32_t>(part.kind),
                               part.index,        0,
                               part.bytes.size(), sum_of(part.bytes)};
      std::memcpy(head_.data() + head.parts_offset() + i * sizeof entry, &entry, sizeof entry);
      pieces_[1 + 2 * i] = part.bytes;
      pieces_[2 + 2 * i] = {kZeros, round_up(part.bytes.size(), kLine) - part.bytes.size()};
      total += round_up(part.bytes.size(), kLine);
    }
    Prefix prefix{};
    std::memcpy(prefix.magic, kMagic, sizeof kMagic);
    prefix.byte_order = kByteOrder;
    prefix.version = kStateFileVersion;
    prefix.file_bytes = total;
    prefix.head_bytes = head.end();
    std::memcpy(head_.data(), &prefix, sizeof prefix);
    prefix.checksum = head_sum(head_.span());
    std::memcpy(head_.data(), &prefix, sizeof prefix);
    pieces_[0] = head_.span();
    bytes_ = total;
    return {};
  }

  os::FileParts pieces() const { return pieces_.span(); }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr std::byte kZeros[kLine] = {};
  static const std::byte* as_bytes(std::string_view text) {
    return reinterpret_cast<const std::byte*>(text.data());
  }
  Array<std::byte> head_;
  Array<std::span<const std::byte>> pieces_;
  size_t bytes_ = 0;
};

Status write_state_file(const std::string& path, const StateContents& contents) {
  StateWriter writer;
  GYRE_TRY(writer.make(contents));
  return os::write_parts_atomically(path, writer.pieces());
}

Result<Array<std::byte>> pack_state(const StateContents& contents) {
  StateWriter writer;
  GYRE_TRY(writer.make(contents));
  GYRE_ASSIGN(auto out, Array<std::byte>::make(writer.bytes(), "state"));
  std::byte* at = out.data();
  for (const auto& piece : writer.pieces()) at = std::copy(piece.begin(), piece.end(), at);
  return out;
}

Error StateFile::broken(std::string_view what, std::string_view value,
                        std::string_view expected) const {
  return fail(ErrorCode::bad_file, name_ + ": " + std::string(what), value, expected);
}

Result<StateFile> StateFile::open(const std::string& path) {
  StateFile made;
  made.name_ = path;
  GYRE_ASSIGN(made.file_, os::MappedFile::open(path));
  GYRE_TRY(made.read_head(made.file_.bytes()));
  return made;
}

Result<StateFile> StateFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  StateFile made;
  made.name_ = name;
  GYRE_TRY(made.read_head(bytes));
  return made;
}

Status StateFile::read_head(std::span<const std::byte> bytes) {
  bytes_ = bytes;
  if (bytes.size() < sizeof kMagic || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    return broken("state file", "other bytes at its start", "GYRESTAT");
  if (bytes.size() < Head::kEnd)
    return broken("state file: cut off", std::to_string(bytes.size()) + " bytes",
                  "at least " + std::to_string(Head::kEnd));
  Prefix prefix;
  std::memcpy(&prefix, bytes.data(), sizeof prefix);
  if (prefix.byte_order == __builtin_bswap32(kByteOrder))
    return fail(ErrorCode::unsupported, name_ + ": byte order", "the other one", "this machine's");
  if (prefix.byte_order != kByteOrder)
    return broken("byte order mark", std::to_string(prefix.byte_order), std::to_string(kByteOrder));
  if (prefix.version != kStateFileVersion)
    return fail(ErrorCode::unsupported, name_ + ": state file version",
                std::to_string(prefix.version), std::to_string(kStateFileVersion));
  if (prefix.file_bytes != bytes.size())
    return broken("state file: cut off or grown", std::to_string(bytes.size()) + " bytes",
                  std::to_string(prefix.file_bytes));
  if (prefix.head_bytes < Head::kEnd || prefix.head_bytes > bytes.size() ||
      prefix.head_bytes % kLine != 0)
    return broken("head", std::to_string(prefix.head_bytes) + " bytes", "whole lines in the file");
  if (prefix.checksum != head_sum(bytes.first(prefix.head_bytes)))
    return broken("checksum of the head", "another one", "the bytes that were written");

  Head head;
  std::memcpy(&head, bytes.data() + sizeof prefix, sizeof head);
  for (uint32_t text : head.text_bytes) {
    if (text > kMostText) return broken("text", std::to_string(text) + " bytes", "at most 65535");
  }
  // Counts of 32 bits: sizes below 2^40.
  if (head.end() != prefix.head_bytes)
    return broken("head",
                  std::to_string(prefix.head_bytes) + " bytes for " + std::to_string(head.tokens) +
                      " tokens and " + std::to_string(head.parts) + " parts",
                  std::to_string(head.end()));
  if (head.page_positions != kernels::kPagePositions)
    return fail(ErrorCode::unsupported, name_ + ": positions in a page",
                std::to_string(head.page_positions), std::to_string(kernels::kPagePositions));
  if (head.length > head.tokens)
    return broken("length", std::to_string(head.length),
                  "at most the " + std::to_string(head.tokens) + " tokens");
  if (head.coded > 1) return broken("coded", std::to_string(head.coded), "0 or 1");
  label_.contract_version = head.contract_version;
  length_ = head.length;
  start_ = head.start;
  coded_ = head.coded == 1;
  GYRE_TRY(read_texts(head));
  return read_parts(head, prefix.head_bytes);
}

Status StateFile::read_texts(const Head& head) {
  size_t at = Head::kEnd;
  std::string* const texts[] = {&label_.model, &label_.scheme, &label_.signature, &note_};
  for (size_t i = 0; i < 4; ++i) {
    texts[i]->assign(reinterpret_cast<const char*>(bytes_.data()) + at, head.text_bytes[i]);
    if (!printable(*texts[i])) return broken("text", "not printable", "ASCII");
    at += head.text_bytes[i];
  }
  const size_t tokens_end = head.tokens_offset() + size_t{head.tokens} * sizeof(int32_t);
  if (!all_zero(std::as_bytes(std::span(head.zero))) ||
      !all_zero(bytes_.subspan(at, head.tokens_offset() - at)) ||
      !all_zero(bytes_.subspan(tokens_end, head.parts_offset() - tokens_end)))
    return broken("unused bytes of the head", "others", "zeros");
  GYRE_ASSIGN(tokens_, Array<int32_t>::make(head.tokens, "saved tokens"));
  if (head.tokens != 0)
    std::memcpy(tokens_.data(), bytes_.data() + head.tokens_offset(),
                size_t{head.tokens} * sizeof(int32_t));
  for (int32_t id : tokens_) {
    if (id < 0) return broken("token id", std::to_string(id), "0 or more");
  }
  return {};
}

Status StateFile::read_parts(const Head& head, size_t at) {
  GYRE_ASSIGN(parts_, Array<StatePart>::make(head.parts, "saved parts"));
  GYRE_ASSIGN(sums_, Array<uint64_t>::make(head.parts, "saved checksums"));
  for (uint32_t i = 0; i < head.parts; ++i) {
    PartEntry entry;
    std::memcpy(&entry, bytes_.data() + head.parts_offset() + i * sizeof entry, sizeof entry);
    const std::string what = "part " + std::to_string(i);
    if (entry.kind >= kStatePartKinds || entry.zero != 0 || entry.index >= kMostPages)
      return broken(what, "kind " + std::to_string(entry.kind), "a kind that this version knows");
    if (entry.bytes == 0 || entry.bytes > bytes_.size() - at ||
        round_up(entry.bytes, kLine) > bytes_.size() - at)
      return broken(what, std::to_string(entry.bytes) + " bytes",
                    "at most the " + std::to_string(bytes_.size() - at) + " left");
    parts_[i] = {entry.layer, static_cast<StatePartKind>(entry.kind), entry.index,
                 bytes_.subspan(at, entry.bytes)};
    sums_[i] = entry.checksum;
    if (i != 0 && !parts_[i - 1].before(parts_[i]))
      return broken(what, "out of order", "layers, kinds and pages ascending");
    at += round_up(entry.bytes, kLine);
  }
  const size_t table_end = head.parts_offset() + size_t{head.parts} * sizeof(PartEntry);
  if (!all_zero(bytes_.subspan(table_end, head.end() - table_end)))
    return broken("unused bytes of the head", "others", "zeros");
  if (at != bytes_.size())
    return broken("parts", std::to_string(at) + " bytes",
                  "the file's " + std::to_string(bytes_.size()));
  return {};
}

Status StateFile::expect(const StateLabel& label) const {
  const auto compare = [&](std::string_view what, std::string_view found,
                           std::string_view wanted) -> Status {
    if (found == wanted) return {};
    return fail(ErrorCode::unsupported, name_ + ": " + std::string(what), shown(found),
                shown(wanted));
  };
  GYRE_TRY(compare("contract version", std::to_string(label_.contract_version),
                   std::to_string(label.contract_version)));
  GYRE_TRY(compare("model", label_.model, label.model));
  GYRE_TRY(compare("KV scheme", label_.scheme, label.scheme));
  return compare("layers", label_.signature, label.signature);
}

Status StateFile::check_sum(size_t index, const std::byte* bytes) const {
  const StatePart& part = parts_[index];
  const std::byte* end = part.bytes.data() + part.bytes.size();
  if (sums_[index] == sum_of({bytes, part.bytes.size()}) &&
      all_zero({end, round_up(part.bytes.size(), kLine) - part.bytes.size()}))
    return {};
  return broken("checksum of " + std::string(state_part_name(part.kind)) + " " +
                    std::to_string(part.index) + " of layer " + std::to_string(part.layer),
                "another one", "the bytes that were written");
}

Status StateFile::read_part(size_t index, std::byte* out) const {
  std::memcpy(out, parts_[index].bytes.data(), parts_[index].bytes.size());
  return check_sum(index, out);
}

Status StateFile::check_part(size_t index) const {
  return check_sum(index, parts_[index].bytes.data());
}

}  // namespace gyre::kv
