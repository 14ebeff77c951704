// A WeightSource of metadata alone, in memory. For tests and fuzz targets.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "loaders/weight_source.h"

namespace gyre::text {

class FakeSource final : public loaders::WeightSource {
 public:
  std::map<std::string, loaders::MetaValue, std::less<>> values;

  const std::vector<loaders::TensorInfo>& tensors() const override { return none_; }
  const loaders::TensorInfo* find(std::string_view) const override { return nullptr; }
  Result<TensorView> tensor(std::string_view name, std::span<const uint64_t>) override {
    return fail(ErrorCode::not_found, name);
  }
  Result<TensorView> rows(std::string_view name, std::span<const uint64_t>, uint64_t,
                          uint64_t) override {
    return fail(ErrorCode::not_found, name);
  }
  void release(const TensorView&) override {}
  Status audit(std::span<const std::string_view>) const override { return {}; }
  const loaders::MetaValue* meta(std::string_view key) const override {
    const auto it = values.find(key);
    return it == values.end() ? nullptr : &it->second;
  }
  std::vector<std::string> meta_keys() const override {
    std::vector<std::string> out;
    for (const auto& [key, value] : values) out.push_back(key);
    return out;
  }
  std::string identity() const override { return "fake"; }
  uint64_t file_bytes() const override { return 0; }
  std::vector<std::string> paths() const override { return {}; }

 private:
  std::vector<loaders::TensorInfo> none_;
};

}  // namespace gyre::text
