// The container of a saved row: who it belongs to, its tokens, and its pages and states as parts
// with a checksum each. Bytes: docs/formats/state_file.md.
//
// The container knows nothing of layers; kv/saved_row.h fills it from a Sequence and back. A
// StateFile borrows its bytes or owns their mapping; reading is safe from any thread. Errors:
// bad_file (not a state file, cut off, a checksum, counts that cannot be), unsupported (another
// version, byte order, contract, model, scheme or signature), io, not_found, out_of_memory. Texts
// begin with the file's name and are one line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/contract.h"
#include "base/memory.h"
#include "base/result.h"
#include "os/file.h"

namespace gyre::kv {

inline constexpr uint32_t kStateFileVersion = 1;

// What must be equal before a row may go on. Each text is printable ASCII, at most 65535 bytes.
struct StateLabel {
  std::string model;      // the weights' digest
  std::string scheme;     // KvScheme::persistent_key
  std::string signature;  // Sequence::signature: the layers' places, codes and sizes
  uint32_t contract_version = kContractVersion;
};

enum class StatePartKind : uint32_t { plain_page, coded_page, anchor, recurrent };
inline constexpr uint32_t kStatePartKinds = 4;
std::string_view state_part_name(StatePartKind kind);

// Parts are in ascending order of (layer, kind, index).
struct StatePart {
  uint32_t layer = 0;
  StatePartKind kind = StatePartKind::plain_page;
  uint32_t index = 0;                // of a page in its layer; else 0
  std::span<const std::byte> bytes;  // not empty

  // Before `other` in a file?
  bool before(const StatePart& other) const;
};

struct StateContents {
  StateLabel label;
  uint32_t length = 0;              // positions that the parts hold
  uint32_t start = 0;               // the row's first coded query
  bool coded = false;               // layers with codes hold them (a window may hold no page)
  std::span<const int32_t> tokens;  // >= 0; may reach beyond `length`: drawn, not computed yet
  std::string_view note;            // the caller's own: printable ASCII, at most 65535 bytes
  std::span<const StatePart> parts;
};

// After success the path holds exactly this; after a failure what it held before.
Status write_state_file(const std::string& path, const StateContents& contents);
// The same bytes in memory.
Result<Array<std::byte>> pack_state(const StateContents& contents);

class StateFile {
 public:
  // Maps the file. Everything but the parts' bytes is checked here.
  static Result<StateFile> open(const std::string& path);
  // Of bytes that outlive this.
  static Result<StateFile> parse(std::span<const std::byte> bytes, const std::string& name);

  // Refuses another contract version, model, scheme or signature, by name.
  Status expect(const StateLabel& label) const;

  const std::string& name() const { return name_; }
  const StateLabel& label() const { return label_; }
  uint32_t length() const { return length_; }
  uint32_t start() const { return start_; }
  bool coded() const { return coded_; }
  std::span<const int32_t> tokens() const { return tokens_.span(); }
  const std::string& note() const { return note_; }

  // Parts; their bytes are not checked yet.
  std::span<const StatePart> parts() const { return parts_.span(); }
  // Copies a part's bytes and checks the copy, so that what was checked is what is used.
  Status read_part(size_t index, std::byte* out) const;
  Status check_part(size_t index) const;

 private:
  friend class StateWriter;  // state_file.cc
  struct Head;
  StateFile() = default;
  Status read_head(std::span<const std::byte> bytes);
  Status read_texts(const Head& head);
  Status read_parts(const Head& head, size_t at);
  Status check_sum(size_t index, const std::byte* bytes) const;
  Error broken(std::string_view what, std::string_view value, std::string_view expected) const;

  os::MappedFile file_;
  std::span<const std::byte> bytes_;
  std::string name_;
  StateLabel label_;
  std::string note_;
  uint32_t length_ = 0, start_ = 0;
  bool coded_ = false;
  Array<int32_t> tokens_;
  Array<StatePart> parts_;
  Array<uint64_t> sums_;
};

}  // namespace gyre::kv
