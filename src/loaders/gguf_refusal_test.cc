// Every refusal of the GGUF reader: the kind of error, and a text that names field and value.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "loaders/gguf.h"
#include "loaders/raw_gguf.h"

namespace gyre::loaders {
namespace {

struct Case {
  const char* name;
  std::function<void(RawGguf*)> change;
  ErrorCode code;
  const char* text;  // the whole error after "bad.gguf: "
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

constexpr auto kBad = ErrorCode::bad_file;
constexpr auto kUnsupported = ErrorCode::unsupported;
constexpr uint64_t kHuge = uint64_t{1} << 63;
const std::string kEmptyArray = RawGguf::le(uint32_t{4}) + RawGguf::le(uint64_t{0});

std::string array(uint32_t type, uint64_t count, const std::string& payload) {
  return RawGguf::le(type) + RawGguf::le(count) + payload;
}
void add_key(RawGguf* raw, const char* key, uint32_t type, const std::string& payload) {
  raw->pairs.push_back({key, type, payload});
}

const Case kHeader[] = {
    {"magic", [](RawGguf* r) { r->magic = "GGML"; }, kBad,
     "magic: bytes 47 47 4d 4c, expected GGUF (47 47 55 46)"},
    {"version_1", [](RawGguf* r) { r->version = 1; }, kUnsupported, "version: 1, expected 2 or 3"},
    {"version_4", [](RawGguf* r) { r->version = 4; }, kUnsupported, "version: 4, expected 2 or 3"},
    {"version_0", [](RawGguf* r) { r->version = 0; }, kUnsupported, "version: 0, expected 2 or 3"},
    {"big_endian", [](RawGguf* r) { r->version = 3u << 24; }, kUnsupported,
     "byte order: big-endian, expected a little-endian file"},
    {"tensor_count", [](RawGguf* r) { r->tensor_count = kHuge; }, kBad,
     "tensor count: 9223372036854775808, expected at most 9 in a file of this size"},
    {"pair_count", [](RawGguf* r) { r->pair_count = kHuge; }, kBad,
     "metadata count: 9223372036854775808, expected at most 21 in a file of this size"},
    {"one_pair_too_many", [](RawGguf* r) { r->pair_count = 3; }, kBad,
     "tensor 0: name: 0 bytes, expected 1 to 255 bytes"},
};

const Case kMetadata[] = {
    {"empty_key", [](RawGguf* r) { r->pairs[1].key = ""; }, kBad,
     "metadata key 1: 0 bytes, expected 1 to 65535 bytes"},
    {"long_key", [](RawGguf* r) { r->pairs[1].key = std::string(65536, 'k'); }, kBad,
     "metadata key 1: 65536 bytes, expected 1 to 65535 bytes"},
    {"duplicate_key", [](RawGguf* r) { r->pairs.push_back(r->pairs[1]); }, kBad,
     "metadata: duplicate key tiny.block_count, expected each key once"},
    {"control_bytes_in_a_key", [](RawGguf* r) { add_key(r, "a\nb\x1b", 99, ""); }, kBad,
     "metadata a b : value type 99, expected 0 to 12"},
    {"value_type", [](RawGguf* r) { r->pairs[1].type = 13; }, kBad,
     "metadata tiny.block_count: value type 13, expected 0 to 12"},
    {"bool_2", [](RawGguf* r) { add_key(r, "flag", 7, "\x02"); }, kBad,
     "metadata flag: bool 2, expected 0 or 1"},
    {"bool_array_3", [](RawGguf* r) { add_key(r, "flags", 9, array(7, 2, "\x01\x03")); }, kBad,
     "metadata flags: bool 3, expected 0 or 1"},
    {"bool_array_count", [](RawGguf* r) { add_key(r, "flags", 9, array(7, kHuge, "")); }, kBad,
     "metadata flags: 9223372036854775808 array elements, expected at most 199 in a file of this "
     "size"},
    {"number_array_count",
     [](RawGguf* r) { add_key(r, "many", 9, array(4, uint64_t{1} << 62, "")); }, kBad,
     "metadata many: 4611686018427387904 array elements, expected at most 50 in a file of this "
     "size"},
    {"string_array_count", [](RawGguf* r) { add_key(r, "texts", 9, array(8, 1000, "")); }, kBad,
     "metadata texts: 1000 array elements, expected at most 24 in a file of this size"},
    {"string_in_array",
     [](RawGguf* r) {
       add_key(r, "texts", 9, array(8, 2, RawGguf::text("ab") + RawGguf::le(kHuge)));
     },
     kBad,
     "metadata texts[1]: string of 9223372036854775808 bytes, expected at most 213 in a file of "
     "this size"},
    {"array_type", [](RawGguf* r) { add_key(r, "many", 9, array(13, 0, "")); }, kBad,
     "metadata many: array element type 13, expected 0 to 12"},
    {"nested_array", [](RawGguf* r) { add_key(r, "deep", 9, array(9, 1, kEmptyArray)); },
     kUnsupported, "metadata deep: an array of arrays, expected an array of plain values"},
    {"nested_empty_array", [](RawGguf* r) { add_key(r, "deep", 9, array(9, 0, "")); }, kUnsupported,
     "metadata deep: an array of arrays, expected an array of plain values"},
    {"string_length", [](RawGguf* r) { add_key(r, "text", 8, RawGguf::le(~uint64_t{0})); }, kBad,
     "metadata text: string of 18446744073709551615 bytes, expected at most 204 in a file of this "
     "size"},
    {"alignment_0", [](RawGguf* r) { add_key(r, "general.alignment", 4, RawGguf::le(0u)); }, kBad,
     "general.alignment: 0, expected a power of two from 8 to 2^30"},
    {"alignment_24", [](RawGguf* r) { add_key(r, "general.alignment", 4, RawGguf::le(24u)); }, kBad,
     "general.alignment: 24, expected a power of two from 8 to 2^30"},
    {"alignment_4", [](RawGguf* r) { add_key(r, "general.alignment", 4, RawGguf::le(4u)); }, kBad,
     "general.alignment: 4, expected a power of two from 8 to 2^30"},
    {"alignment_2_to_31",
     [](RawGguf* r) { add_key(r, "general.alignment", 4, RawGguf::le(1u << 31)); }, kBad,
     "general.alignment: 2147483648, expected a power of two from 8 to 2^30"},
    {"alignment_type", [](RawGguf* r) { add_key(r, "general.alignment", 8, RawGguf::text("32")); },
     kBad, "general.alignment: a string \"32\", expected an unsigned integer"},
    {"split_count", [](RawGguf* r) { add_key(r, "split.count", 2, RawGguf::le(uint16_t{3})); },
     kUnsupported, "split.count: 3, expected a whole model"},
    {"split_number", [](RawGguf* r) { add_key(r, "split.no", 2, RawGguf::le(uint16_t{1})); }, kBad,
     "split.no: 1, expected less than split.count, 1"},
    {"split_type", [](RawGguf* r) { add_key(r, "split.no", 6, RawGguf::le(1.5f)); }, kBad,
     "split.no: a float 1.500000, expected an integer of at least 0"},
    {"split_negative", [](RawGguf* r) { add_key(r, "split.tensors.count", 5, RawGguf::le(-1)); },
     kBad, "split.tensors.count: an integer -1, expected an integer of at least 0"},
    {"split_tensors", [](RawGguf* r) { add_key(r, "split.tensors.count", 5, RawGguf::le(3)); },
     kBad, "split.tensors.count: 3, expected 2 as in the parts together"},
};

constexpr const char* kTypes =
    "one of F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4";
const std::string kForeign =
    std::string("tensor proj.weight: type: IQ2_XXS (ggml type 16), expected ") + kTypes;
const std::string kRemoved =
    std::string("tensor proj.weight: type: Q4_2 (ggml type 4), expected ") + kTypes;
const std::string kUnknown =
    std::string("tensor proj.weight: type: unknown ggml type 4294967295, expected ") + kTypes;

const Case kTensors[] = {
    {"empty_name", [](RawGguf* r) { r->tensors[1].name = ""; }, kBad,
     "tensor 1: name: 0 bytes, expected 1 to 255 bytes"},
    {"long_name", [](RawGguf* r) { r->tensors[1].name = std::string(256, 'n'); }, kBad,
     "tensor 1: name: 256 bytes, expected 1 to 255 bytes"},
    {"duplicate_name", [](RawGguf* r) { r->tensors[1].name = "norm.weight"; }, kBad,
     "tensor table: duplicate tensor norm.weight, expected each name once"},
    {"no_dimensions", [](RawGguf* r) { r->tensors[1].dims = {}; }, kBad,
     "tensor proj.weight: dimensions: 0, expected 1 to 4"},
    {"five_dimensions",
     [](RawGguf* r) {
       r->tensors[1].dims = {64, 2, 1, 1, 1};
     },
     kBad, "tensor proj.weight: dimensions: 5, expected 1 to 4"},
    {"zero_dimension",
     [](RawGguf* r) {
       r->tensors[1].dims = {64, 0};
     },
     kBad, "tensor proj.weight: dimension 1: 0, expected at least 1"},
    {"foreign_type", [](RawGguf* r) { r->tensors[1].type = 16; }, kUnsupported, kForeign.c_str()},
    {"removed_type", [](RawGguf* r) { r->tensors[1].type = 4; }, kUnsupported, kRemoved.c_str()},
    {"unknown_type", [](RawGguf* r) { r->tensors[1].type = ~0u; }, kUnsupported, kUnknown.c_str()},
    {"row_length",
     [](RawGguf* r) {
       r->tensors[1].dims = {48, 2};
     },
     kBad, "tensor proj.weight: row length: 48, expected a multiple of 32 for Q4_0"},
    {"row_length_over_32_bits", [](RawGguf* r) { r->tensors[1].dims = {uint64_t{1} << 33}; }, kBad,
     "tensor proj.weight: row length: 8589934592, expected at most 4294967295"},
    {"rows_over_32_bits",
     [](RawGguf* r) {
       r->tensors[1].dims = {32, uint64_t{1} << 20, uint64_t{1} << 12};
     },
     kBad, "tensor proj.weight: rows: 1048576 x 4096, expected a product of at most 4294967295"},
    {"rows_overflow",
     [](RawGguf* r) {
       r->tensors[1].dims = {32, kHuge, 2, kHuge};
     },
     kBad,
     "tensor proj.weight: rows: 9223372036854775808 x 2 x 9223372036854775808, expected a product "
     "of at most 4294967295"},
    {"bytes_overflow",
     [](RawGguf* r) {
       r->tensors[1].dims = {4294967264, 4294967295};
     },
     kBad,
     "tensor proj.weight: 4294967295 rows of 4294967264, expected at most the file's 328 bytes"},
    {"larger_than_the_file",
     [](RawGguf* r) {
       r->tensors[1].dims = {64, 100};
     },
     kBad, "tensor proj.weight: 100 rows of 64, expected at most the file's 328 bytes"},
    {"misaligned", [](RawGguf* r) { r->tensors[1].offset = 33; }, kBad,
     "tensor proj.weight: offset: 33, expected a multiple of 32"},
    {"past_the_end", [](RawGguf* r) { r->tensors[1].offset = 64; }, kBad,
     "tensor proj.weight: offset: 64 with 72 bytes, expected an end within the 104 bytes of tensor "
     "data"},
    {"offset_overflow", [](RawGguf* r) { r->tensors[1].offset = ~uint64_t{31}; }, kBad,
     "tensor proj.weight: offset: 18446744073709551584 with 72 bytes, expected an end within the "
     "104 bytes of tensor data"},
    {"overlap", [](RawGguf* r) { r->tensors[0].offset = 32; }, kBad,
     "tensor proj.weight: offset: 32 overlaps tensor norm.weight, expected at least 64"},
    {"overlap_out_of_order",
     [](RawGguf* r) {
       r->tensors[1].offset = 0;
       r->tensors[0].offset = 64;
     },
     kBad, "tensor norm.weight: offset: 64 overlaps tensor proj.weight, expected at least 72"},
    {"one_byte_short", [](RawGguf* r) { r->data_bytes -= 1; }, kBad,
     "tensor proj.weight: offset: 32 with 72 bytes, expected an end within the 103 bytes of tensor "
     "data"},
};

class Refusal : public testing::TestWithParam<Case> {};

TEST_P(Refusal, NamesFieldAndValue) {
  RawGguf raw = RawGguf::good();
  ASSERT_TRUE(gguf_from_bytes(AlignedBytes(raw.bytes()).span(), "good.gguf"));
  GetParam().change(&raw);
  const AlignedBytes bytes(raw.bytes());
  auto source = gguf_from_bytes(bytes.span(), "bad.gguf");
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, GetParam().code) << error_name(source.error().code);
  EXPECT_EQ(source.error().text, std::string("bad.gguf: ") + GetParam().text);
}

const auto kCaseName = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Header, Refusal, testing::ValuesIn(kHeader), kCaseName);
INSTANTIATE_TEST_SUITE_P(Metadata, Refusal, testing::ValuesIn(kMetadata), kCaseName);
INSTANTIATE_TEST_SUITE_P(Tensors, Refusal, testing::ValuesIn(kTensors), kCaseName);

// Cut anywhere, a file with every kind of field is refused in one line that names the file.
TEST(Truncation, IsRefusedAtEveryByte) {
  RawGguf raw = RawGguf::good();
  add_key(&raw, "flag", 7, "\x01");
  add_key(&raw, "flags", 9, array(7, 3, std::string("\x01\x00\x01", 3)));
  add_key(&raw, "texts", 9, array(8, 2, RawGguf::text("ab") + RawGguf::text("cd")));
  add_key(&raw, "many", 9, array(10, 2, std::string(16, '\x11')));
  const std::string whole = raw.bytes();
  ASSERT_TRUE(gguf_from_bytes(AlignedBytes(whole).span(), "good.gguf"));
  for (size_t size = 0; size < whole.size(); ++size) {
    const AlignedBytes bytes(whole.substr(0, size));
    auto source = gguf_from_bytes(bytes.span(), "cut.gguf");
    ASSERT_FALSE(source) << size;
    EXPECT_EQ(source.error().code, ErrorCode::bad_file) << size;
    EXPECT_EQ(source.error().text.find("cut.gguf: "), 0u) << source.error().text;
    EXPECT_NE(source.error().text.find(", expected "), std::string::npos) << source.error().text;
    EXPECT_EQ(source.error().text.find('\n'), std::string::npos);
  }
}

TEST(Truncation, NamesThePlace) {
  const std::string whole = RawGguf::good().bytes();
  const auto text_at = [&](size_t size) {
    return gguf_from_bytes(AlignedBytes(whole.substr(0, size)).span(), "cut.gguf").error().text;
  };
  EXPECT_EQ(
      text_at(3),
      "cut.gguf: magic: the file ends at byte 3, expected more bytes (the field starts at byte 0)");
  EXPECT_EQ(text_at(6),
            "cut.gguf: version: the file ends at byte 6, expected more bytes (the field starts at "
            "byte 4)");
  EXPECT_EQ(
      text_at(0),
      "cut.gguf: magic: the file ends at byte 0, expected more bytes (the field starts at byte 0)");
}

// Any one byte changed: an error or a source, never a crash; an error stays one short line.
TEST(OneByte, ChangedAnywhereIsSafe) {
  const std::string whole = RawGguf::good().bytes();
  size_t refused = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      auto source = gguf_from_bytes(AlignedBytes(changed).span(), "x.gguf");
      if (source) continue;
      ++refused;
      EXPECT_LT(source.error().text.size(), 400u);
      EXPECT_EQ(source.error().text.find('\n'), std::string::npos);
    }
  }
  EXPECT_GT(refused, 150u);
}

}  // namespace
}  // namespace gyre::loaders
