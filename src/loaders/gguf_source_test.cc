#include "loaders/gguf_source.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "base/memory.h"
#include "loaders/gguf.h"
#include "loaders/raw_gguf.h"
#include "os/fault.h"

namespace gyre::loaders {
namespace {

namespace fs = std::filesystem;

using Shape = std::vector<uint64_t>;

std::string tensor_name(size_t i) {
  return std::string("t").append(std::to_string(i));
}

std::string tiny_model(size_t tensors) {
  RawGguf raw;
  raw.pairs = {{"general.architecture", 8, RawGguf::text("tiny")},
               {"u", 4, RawGguf::le(7u)},
               {"i", 5, RawGguf::le(7)},
               {"negative", 5, RawGguf::le(-7)},
               {"f", 6, RawGguf::le(0.5f)},
               {"b", 7, "\x01"},
               {"texts", 9, RawGguf::le(8u) + RawGguf::le(uint64_t{1}) + RawGguf::text("x")}};
  for (size_t i = 0; i < tensors; ++i)
    raw.tensors.push_back({tensor_name(i), {32, 3, 2}, 8, i * 224});  // 6 rows of 34 bytes
  raw.data_bytes = tensors * 224;
  return raw.bytes();
}

TEST(GgufSource, GivesViewsOfTheFilesBytes) {
  const AlignedBytes bytes(tiny_model(2));
  auto made = gguf_from_bytes(bytes.span(), "m.gguf");
  ASSERT_TRUE(made) << made.error().text;
  WeightSource& source = **made;
  ASSERT_NE(source.find("t1"), nullptr);
  EXPECT_EQ(source.find("t1")->shape, (Shape{2, 3, 32}));
  EXPECT_EQ(source.find("t2"), nullptr);

  auto all = source.tensor("t1", Shape{2, 3, 32});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->dtype, DType::q8_0);
  EXPECT_EQ(all->rows, 6u);
  EXPECT_EQ(all->cols, 32u);
  EXPECT_EQ(all->data, bytes.span().data() + source.find("t1")->offset);
  EXPECT_EQ(all->bytes(), 204u);
  auto some = source.rows("t1", Shape{1, 2, 3, 32}, 2, 5);  // leading ones carry no meaning
  ASSERT_TRUE(some);
  EXPECT_EQ(some->rows, 3u);
  EXPECT_EQ(some->data, all->data + 2 * 34);
  source.release(*all);  // not a mapping: nothing to do
  EXPECT_EQ(source.file_bytes(), bytes.span().size());
  EXPECT_EQ(source.paths(), std::vector<std::string>{"m.gguf"});
}

TEST(GgufSource, MismatchNamesBothSides) {
  const AlignedBytes bytes(tiny_model(1));
  auto source = gguf_from_bytes(bytes.span(), "m.gguf");
  ASSERT_TRUE(source);
  const auto tensor = [&](const char* name, Shape shape) {
    return (*source)->tensor(name, shape).error();
  };
  EXPECT_EQ(tensor("t0", {6, 32}).text, "tensor t0: shape [2, 3, 32], expected [6, 32]");
  EXPECT_EQ(tensor("t0", {6, 32}).code, ErrorCode::bad_file);
  EXPECT_EQ(tensor("t0", {2, 3, 33}).text, "tensor t0: shape [2, 3, 32], expected [2, 3, 33]");
  EXPECT_EQ(tensor("t0", {}).text, "tensor t0: shape [2, 3, 32], expected []");
  EXPECT_EQ(tensor("t9", {6, 32}).text, "tensor t9: missing, expected shape [6, 32]");
  EXPECT_EQ(tensor("t9", {6, 32}).code, ErrorCode::not_found);
  for (const auto& [begin, end] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 7}, {3, 3}, {4, 3}, {6, 7}, {0, ~uint64_t{0}}}) {
    auto rows = (*source)->rows("t0", Shape{2, 3, 32}, begin, end);
    ASSERT_FALSE(rows);
    EXPECT_EQ(rows.error().text, std::string("tensor t0: rows ") + std::to_string(begin) + " to " +
                                     std::to_string(end) +
                                     ", expected a range that is not empty within 6 rows");
  }
  EXPECT_FALSE((*source)->audit());  // a refused request does not count as use
}

TEST(GgufSource, AuditListsWhatNobodyAskedFor) {
  const AlignedBytes bytes(tiny_model(13));
  auto source = gguf_from_bytes(bytes.span(), "m.gguf");
  ASSERT_TRUE(source);
  ASSERT_TRUE((*source)->tensor("t1", Shape{2, 3, 32}));
  EXPECT_EQ((*source)->audit().error().text,
            "unused tensors: 12 (t0 t2 t3 t4 t5 t6 t7 t8 t9 t10 and 2 more), expected a model that "
            "uses every tensor");
  EXPECT_EQ((*source)->audit().error().code, ErrorCode::unsupported);
  for (int i = 2; i < 13; ++i)
    ASSERT_TRUE((*source)->rows(tensor_name(static_cast<size_t>(i)), Shape{2, 3, 32}, 0, 1));
  EXPECT_EQ((*source)->audit().error().text,
            "unused tensors: 1 (t0), expected a model that uses every tensor");
  const std::string_view ignored[] = {"t0", "other"};
  EXPECT_TRUE((*source)->audit(ignored));
}

TEST(GgufSource, TypedMetadata) {
  const AlignedBytes bytes(tiny_model(0));
  auto made = gguf_from_bytes(bytes.span(), "m.gguf");
  ASSERT_TRUE(made) << made.error().text;
  const WeightSource& source = **made;
  EXPECT_EQ(*source.get_u64("u"), 7u);
  EXPECT_EQ(*source.get_u64("i"), 7u);
  EXPECT_EQ(*source.get_f64("f"), 0.5);
  EXPECT_EQ(*source.get_bool("b"), true);
  EXPECT_EQ(*source.get_string("general.architecture"), "tiny");
  EXPECT_EQ(*source.get_u64_or("u", 1), 7u);
  EXPECT_EQ(*source.get_u64_or("none", 1), 1u);
  EXPECT_EQ(*source.get_f64_or("none", 1.5), 1.5);
  EXPECT_EQ(*source.get_bool_or("none", true), true);
  EXPECT_EQ(*source.get_string_or("none", "x"), "x");

  EXPECT_EQ(source.get_u64("none").error().text,
            "metadata none: missing, expected an integer of at least 0");
  EXPECT_EQ(source.get_u64("none").error().code, ErrorCode::not_found);
  EXPECT_EQ(source.get_u64_or("negative", 1).error().text,
            "metadata negative: an integer -7, expected an integer of at least 0");
  EXPECT_EQ(source.get_u64("f").error().text,
            "metadata f: a float 0.500000, expected an integer of at least 0");
  EXPECT_EQ(source.get_f64_or("u", 1).error().text,
            "metadata u: an unsigned integer 7, expected a float");
  EXPECT_EQ(source.get_string("b").error().text, "metadata b: a bool true, expected a string");
  EXPECT_EQ(source.get_bool("general.architecture").error().text,
            "metadata general.architecture: a string \"tiny\", expected a bool");
  EXPECT_EQ(source.get_string("texts").error().text,
            "metadata texts: an array of strings, expected a string");
  EXPECT_EQ(source.get_bool("u").error().code, ErrorCode::bad_file);
}

TEST(GgufSource, IdentityFollowsEverySampledByte) {
  const std::string whole = tiny_model(2);
  const auto identity = [](const std::string& text) -> std::string {
    const AlignedBytes bytes(text);
    auto source = gguf_from_bytes(bytes.span(), "any name");
    return source ? (*source)->identity() : std::string();
  };
  const std::string first = identity(whole);
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(identity(whole), first);
  EXPECT_NE(identity(whole + '\0'), first);  // the size counts
  const size_t data = whole.size() - 2 * 224;
  // The metadata's last value, a tensor's name, and a tensor's first, middle and last bytes.
  for (const size_t at : {whole.find("texts") + 29, whole.find("t1"), data, data + 102, data + 203,
                          data + 224 + 100}) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 2);
    EXPECT_NE(identity(changed), first) << at;
    EXPECT_NE(identity(changed), "") << at;
  }
}

TEST(GgufSource, MetadataOnlyFilesNeedNoPadding) {
  const std::string whole = tiny_model(0);
  const AlignedBytes bytes(whole.substr(0, whole.rfind('x') + 1));
  auto source = gguf_from_bytes(bytes.span(), "vocabulary.gguf");
  ASSERT_TRUE(source) << source.error().text;
  EXPECT_TRUE((*source)->tensors().empty());
  EXPECT_TRUE((*source)->audit());
  EXPECT_EQ((*source)->identity().size(), 32u);
  EXPECT_EQ((*source)->meta_keys().size(), 7u);
}

class Split : public testing::Test {
 protected:
  Split() {
    std::string name = testing::TempDir() + "gyre_split_XXXXXX";
    root_ = ::mkdtemp(name.data());
    for (int i = 0; i < 3; ++i) parts_[i] = part(i);
  }
  ~Split() override {
    os::fail_operation_after(-1);
    fs::remove_all(root_);
  }
  static RawGguf part(uint16_t number) {
    RawGguf raw;
    raw.pairs = {{"split.no", 2, RawGguf::le(number)},
                 {"split.count", 2, RawGguf::le(uint16_t{3})},
                 {"split.tensors.count", 5, RawGguf::le(3)}};
    if (number == 0) raw.pairs.push_back({"general.architecture", 8, RawGguf::text("tiny")});
    raw.tensors = {{"t" + std::to_string(number), {8}, 0, 0}};
    raw.data_bytes = 32;
    return raw;
  }
  std::string path(int number) const {
    return root_ + "/m-0000" + std::to_string(number + 1) + "-of-00003.gguf";
  }
  void write() const {
    for (int i = 0; i < 3; ++i) std::ofstream(path(i), std::ios::binary) << parts_[i].bytes();
  }
  Error error(int asked = 0) const {
    auto source = open_weights(path(asked));
    return source ? Error{} : source.error();
  }
  std::string root_;
  RawGguf parts_[3];
};

TEST_F(Split, AnyPartOpensTheWhole) {
  write();
  std::string identity;
  for (int i = 0; i < 3; ++i) {
    auto source = open_weights(path(i));
    ASSERT_TRUE(source) << source.error().text;
    EXPECT_EQ((*source)->paths(), (std::vector<std::string>{path(0), path(1), path(2)}));
    ASSERT_EQ((*source)->tensors().size(), 3u);
    EXPECT_EQ((*source)->find("t2")->file, 2u);
    auto view = (*source)->tensor("t1", Shape{8});
    ASSERT_TRUE(view);
    EXPECT_EQ(view->data[1], std::byte{37});
    (*source)->release(*view);
    EXPECT_EQ(view->data[1], std::byte{37});
    EXPECT_EQ(*(*source)->get_string("general.architecture"), "tiny");
    if (i == 0) identity = (*source)->identity();
    EXPECT_EQ((*source)->identity(), identity);
  }
}

TEST_F(Split, MissingPart) {
  write();
  fs::remove(path(1));
  EXPECT_EQ(error(0).code, ErrorCode::not_found);
  EXPECT_EQ(error(2).text, path(1) + ": open: No such file or directory");
}

TEST_F(Split, MetadataMustAgreeWithTheName) {
  parts_[1].pairs[0].payload = RawGguf::le(uint16_t{2});
  write();
  EXPECT_EQ(error(0).text, path(1) + ": split.no: 2, expected 1 as in the file's name");
  parts_[1] = part(1);
  parts_[2].pairs[1].payload = RawGguf::le(uint16_t{4});
  write();
  EXPECT_EQ(error(0).text, path(2) + ": split.count: 4, expected 3 as in the file's name");
  parts_[2].pairs.erase(parts_[2].pairs.begin(), parts_[2].pairs.begin() + 2);
  write();
  EXPECT_EQ(error(2).text, path(2) + ": split.count: 1, expected 3 as in the file's name");
  fs::rename(path(0), root_ + "/m.gguf");
  EXPECT_EQ(open_weights(root_ + "/m.gguf").error().text,
            root_ +
                "/m.gguf: file name: a part of a split model, expected a name that ends in "
                "-00001-of-00002.gguf or the like");
  for (const char* name : {"/m-00000-of-00003.gguf", "/m-00004-of-00003.gguf", "/m-1-of-3.gguf"}) {
    fs::copy(root_ + "/m.gguf", root_ + name);
    EXPECT_EQ(open_weights(root_ + name).error().text,
              root_ + name +
                  ": file name: a part of a split model, expected a name that ends in "
                  "-00001-of-00002.gguf or the like");
  }
  fs::rename(root_ + "/m.gguf", root_ + "/m-00001-of-00001.gguf");
  EXPECT_EQ(open_weights(root_ + "/m-00001-of-00001.gguf").error().text,
            root_ + "/m-00001-of-00001.gguf: split.count: 3, expected 1 as in the file's name");
}

TEST_F(Split, PartsMustFitTogether) {
  parts_[2].tensors[0].name = "t0";
  write();
  EXPECT_EQ(error(1).text,
            path(2) + ": tensor t0: also in " + path(0) + ", expected each name in one part");
  parts_[2] = part(2);
  parts_[2].pairs.push_back({"general.architecture", 8, RawGguf::text("other")});
  write();
  EXPECT_EQ(error(1).text, path(2) +
                               ": metadata general.architecture: a string \"other\", expected "
                               "a string \"tiny\" as in an earlier part");
  for (int i = 0; i < 3; ++i) {
    parts_[i] = part(static_cast<uint16_t>(i));
    parts_[i].pairs[2].payload = RawGguf::le(4);
  }
  write();
  EXPECT_EQ(error(1).text,
            path(1) + ": split.tensors.count: 4, expected 3 as in the parts together");
}

TEST_F(Split, EveryFailingFileOperationIsAnError) {
  write();
  int failures = 0;
  for (long n = 0;; ++n) {
    os::fail_operation_after(n);
    auto source = open_weights(path(1));
    os::fail_operation_after(-1);
    if (source) break;
    ++failures;
    EXPECT_EQ(source.error().code, ErrorCode::io);
    EXPECT_NE(source.error().text.find(root_), std::string::npos);
  }
  EXPECT_EQ(failures, 9);  // open, stat and map of three files
}

TEST(Open, ShortMemoryIsAnError) {
  const AlignedBytes bytes(tiny_model(1));
  fail_allocation_after(0);
  auto source = gguf_from_bytes(bytes.span(), "m.gguf");
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(source.error().text, "m.gguf: no memory for the metadata");
  EXPECT_TRUE(gguf_from_bytes(bytes.span(), "m.gguf"));
}

TEST(Open, MissingAndWrongFiles) {
  EXPECT_EQ(open_weights("no/such.gguf").error().code, ErrorCode::not_found);
  EXPECT_EQ(open_weights("no/such.gguf").error().text,
            "no/such.gguf: open: No such file or directory");
  EXPECT_EQ(open_weights("/").error().code, ErrorCode::io);
  EXPECT_EQ(open_weights("").error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace gyre::loaders
