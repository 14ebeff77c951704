// The reader against the gguf Python package: listings made by tests/oracle/make_gguf_goldens.py.
// And the writer against the package's writer: the same content, the same bytes.
#include <gtest/gtest.h>
#include <time.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "loaders/gguf.h"
#include "loaders/gguf_writer.h"
#include "loaders/raw_gguf.h"

namespace gyre::loaders {
namespace {

const std::string kGoldens = std::string(GYRE_SOURCE_DIR) + "/tests/golden/gguf/";
const std::string kModels = std::string(GYRE_SOURCE_DIR) + "/models/";

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

std::string fnv(std::string_view text) {
  uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  char shown[17];
  std::snprintf(shown, sizeof shown, "%016llx", static_cast<unsigned long long>(value));
  return shown;
}

std::string item(bool value) {
  return value ? "1" : "0";
}
std::string item(int64_t value) {
  return std::to_string(value);
}
std::string item(uint64_t value) {
  return std::to_string(value);
}
std::string item(const std::string& value) {
  return std::to_string(value.size()) + ":" + fnv(value);
}
std::string item(double value) {
  char shown[40];
  std::snprintf(shown, sizeof shown, "%.17g", value);
  return shown;
}

const char* kind(bool) {
  return "bool";
}
const char* kind(int64_t) {
  return "signed";
}
const char* kind(uint64_t) {
  return "unsigned";
}
const char* kind(double) {
  return "float";
}
const char* kind(const std::string&) {
  return "string";
}

struct ShowValue {
  template <class T>
  std::string operator()(const T& value) const {
    return std::string(kind(value)) + " " + item(value);
  }
  template <class T>
  std::string operator()(const std::vector<T>& values) const {
    std::string all;
    for (size_t i = 0; i < values.size(); ++i)
      all.append(i == 0 ? "" : " ").append(item(static_cast<T>(values[i])));
    if (values.size() > 16) all = fnv(all);
    return std::string(kind(T())) + "[" + std::to_string(values.size()) + "] " + all;
  }
};

uint64_t weigh(std::span<const std::byte> data) {
  uint64_t sum = 0, weight = 0;
  const size_t ends = std::min<size_t>(256, data.size());
  for (size_t i = 0; i < ends; ++i) sum += ++weight * static_cast<uint64_t>(data[i]);
  for (size_t i = data.size() - ends; i < data.size(); ++i)
    sum += ++weight * static_cast<uint64_t>(data[i]);
  return sum;
}

std::string listing(WeightSource& source) {
  std::ostringstream out;
  for (const std::string& key : source.meta_keys())
    out << "meta " << key << " " << std::visit(ShowValue(), *source.meta(key)) << "\n";
  for (const TensorInfo& info : source.tensors()) {
    auto view = source.tensor(info.name, info.shape);
    EXPECT_TRUE(view) << info.name;
    if (!view) continue;
    EXPECT_EQ(view->bytes(), info.bytes);
    out << "tensor " << info.name << " " << name(view->dtype) << " ";
    for (size_t i = 0; i < info.shape.size(); ++i) out << (i == 0 ? "" : ",") << info.shape[i];
    out << " " << info.file << " " << info.offset << " " << info.bytes << " "
        << weigh({view->data, view->bytes()}) << "\n";
  }
  EXPECT_TRUE(source.audit());
  return out.str();
}

struct Golden {
  const char* file;
  const char* listing;
};

TEST(GgufGolden, TheReaderSeesWhatThePythonReaderSees) {
  for (const auto& [file, text] :
       {Golden{"values.gguf", "values.txt"}, Golden{"values_v2.gguf", "values_v2.txt"},
        Golden{"dtypes.gguf", "dtypes.txt"}, Golden{"split-00002-of-00003.gguf", "split.txt"}}) {
    auto source = open_weights(kGoldens + file);
    ASSERT_TRUE(source) << source.error().text;
    EXPECT_EQ(listing(**source), contents(kGoldens + text)) << file;
  }
}

double cpu_ms() {
  timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

TEST(GgufGolden, RealModels) {
  int models = 0;
  for (const char* stem : {"SmolLM2-135M-Instruct.Q4_1", "gemma-3-270m-q4_k_m"}) {
    const std::string path = kModels + stem + ".gguf";
    if (!std::filesystem::exists(path)) continue;
    ++models;
    const double begin = cpu_ms();
    auto source = open_weights(path);
    const double opened = cpu_ms();
    ASSERT_TRUE(source) << source.error().text;
    EXPECT_EQ(listing(**source), contents(kGoldens + stem + ".txt"));
    const double before = cpu_ms();
    const std::string identity = (*source)->identity();
    const double after = cpu_ms();
    std::printf("%s: open %.2f ms, identity %.2f ms %s\n", stem, opened - begin, after - before,
                identity.c_str());
    RecordProperty(std::string(stem) + "_open_ms", std::to_string(opened - begin));
  }
  if (models == 0) GTEST_SKIP() << "models/ is empty: ./dev models";
}

template <class T>
void add_four(GgufWriter* out, const char* key, T first) {
  const T values[] = {first, T{0}, T{1}, T{77}};
  out->add_array(key, std::span<const T>(values));
}

TEST(GgufWriter, MakesThePythonWritersBytes) {
  const std::string golden = contents(kGoldens + "values.gguf");
  const AlignedBytes bytes(golden);
  auto source = gguf_from_bytes(bytes.span(), "values.gguf");
  ASSERT_TRUE(source);

  GgufWriter out;
  out.add("general.architecture", "tiny");
  out.add("general.alignment", uint32_t{64});
  out.add("one.uint8", uint8_t{255});
  out.add("one.int8", int8_t{-128});
  out.add("one.uint16", uint16_t{65535});
  out.add("one.int16", int16_t{-32768});
  out.add("one.uint32", uint32_t{4294967295});
  out.add("one.int32", std::numeric_limits<int32_t>::min());
  out.add("one.float32", 0.1f);
  out.add("one.bool", true);
  out.add("one.uint64", ~uint64_t{0});
  out.add("one.int64", std::numeric_limits<int64_t>::min());
  out.add("one.float64", 0.1);
  out.add("one.string", "gr\u00fc\u00dfe\n\t\u2603");
  add_four<uint8_t>(&out, "many.uint8", 255);
  add_four<int8_t>(&out, "many.int8", -128);
  add_four<uint16_t>(&out, "many.uint16", 65535);
  add_four<int16_t>(&out, "many.int16", -32768);
  add_four<uint32_t>(&out, "many.uint32", 4294967295);
  add_four<int32_t>(&out, "many.int32", std::numeric_limits<int32_t>::min());
  add_four<float>(&out, "many.float32", 0.1f);
  const bool flags[] = {true, false, true};
  out.add_array("many.bool", std::span<const bool>(flags));
  add_four<uint64_t>(&out, "many.uint64", ~uint64_t{0});
  add_four<int64_t>(&out, "many.int64", std::numeric_limits<int64_t>::min());
  add_four<double>(&out, "many.float64", 0.1);
  const std::string texts[] = {"", "a", "a string that does not fit into a small buffer", "\u2603"};
  out.add_array("many.string", texts);
  std::vector<uint8_t> hundred(100);
  std::iota(hundred.begin(), hundred.end(), uint8_t{0});
  out.add_array("long.uint8", std::span<const uint8_t>(hundred));
  for (const TensorInfo& info : (*source)->tensors())
    out.add_tensor(info.name, info.dtype, info.shape,
                   bytes.span().subspan(info.offset, info.bytes));

  auto made = out.finish();
  ASSERT_TRUE(made) << made.error().text;
  const std::string_view made_text(reinterpret_cast<const char*>(made->data()), made->size());
  EXPECT_EQ(made_text, golden);
}

TEST(GgufWriter, WhatItMakesIsReadBackAndChecked) {
  const std::vector<std::byte> bytes(40);
  const auto text_of = [&](auto change) {
    GgufWriter writer;
    change(writer);
    auto made = writer.finish();
    return made ? std::string() : made.error().text;
  };
  EXPECT_EQ(text_of([](GgufWriter&) {}), "");
  EXPECT_EQ(text_of([&](GgufWriter& w) { w.add_tensor("t", DType::f32, {2, 5}, bytes); }), "");
  EXPECT_EQ(text_of([&](GgufWriter& w) {
              w.add_tensor("t", DType::f32, {2, 6}, bytes);
            }),
            "GGUF writer: tensor t: 40 bytes, expected 48");
  EXPECT_EQ(text_of([&](GgufWriter& w) {
              w.add_tensor("t", DType::f32, {~uint64_t{0}, 6}, bytes);
            }),
            "GGUF writer: tensor t: 40 bytes, expected 0");
  EXPECT_EQ(text_of([&](GgufWriter& w) {
              w.add_tensor("t", DType::f32, {0, 6}, {});
            }),
            "GGUF writer: tensor t: dimension 1: 0, expected at least 1");
  EXPECT_EQ(text_of([&](GgufWriter& w) {
              w.add_tensor("t", DType::f32, {10}, bytes);
              w.add_tensor("t", DType::f32, {10}, bytes);
            }),
            "GGUF writer: tensor table: duplicate tensor t, expected each name once");
  EXPECT_EQ(text_of([](GgufWriter& w) { w.add("a", 1), w.add("a", 2); }),
            "GGUF writer: metadata: duplicate key a, expected each key once");
  EXPECT_EQ(text_of([](GgufWriter& w) { w.add("general.alignment", 0u); }),
            "GGUF writer: general.alignment: 0, expected a power of two from 8 to 2^30");
  EXPECT_EQ(text_of([](GgufWriter& w) { w.add("general.alignment", 12u); }),
            "GGUF writer: general.alignment: 12, expected a power of two from 8 to 2^30");
}

}  // namespace
}  // namespace gyre::loaders
