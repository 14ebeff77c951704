#include "models/weights.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "os/cpu.h"
#include "quant/codes.h"
#include "quant/rows.h"

namespace gyre::models {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kPackItem = 256 << 10;          // bytes of panels that one work item makes
constexpr uint64_t kMagic = 0x4c454e4150455247;  // "GREPANEL"

struct CacheHeader {
  uint64_t magic, layout, identity_hash, bytes, checksum, reserved[3];
};
static_assert(sizeof(CacheHeader) == kLine);

size_t round_up(size_t n, size_t to) {
  return (n + to - 1) / to * to;
}

CacheHeader header_for(const std::string& identity, std::span<const std::byte> panels) {
  return {kMagic,
          kernels::kPanelLayoutVersion,
          XXH3_64bits(identity.data(), identity.size()),
          panels.size(),
          XXH3_64bits(panels.data(), panels.size()),
          {}};
}

}  // namespace

Result<const kernels::Matrix*> Weights::matrix(const std::string& name, uint64_t rows,
                                               uint64_t cols) {
  const uint64_t shape[] = {rows, cols};
  GYRE_ASSIGN(const TensorView view, source_.tensor(name, shape));
  matrices_.push_back({view, nullptr});
  names_.push_back(name);
  offsets_.push_back(total_);
  total_ += round_up(kernels::panel_bytes(view.dtype, view.cols) * kernels::panel_count(view.rows),
                     kLine);
  return &matrices_.back();
}

Result<const kernels::Matrix*> Weights::optional_matrix(const std::string& name, uint64_t rows,
                                                        uint64_t cols) {
  if (source_.find(name) == nullptr) return static_cast<const kernels::Matrix*>(nullptr);
  return matrix(name, rows, cols);
}

Result<const float*> Weights::vector(const std::string& name, uint64_t n) {
  const uint64_t shape[] = {n};
  GYRE_ASSIGN(const TensorView view, source_.tensor(name, shape));
  GYRE_TRY(quant::check_block_scales(view, name));
  GYRE_ASSIGN(Array<float> values, Array<float>::make(n, "weight vector"));
  quant::decode_row(view.dtype, view.data, values.data(), n);
  vectors_.push_back(std::move(values));
  return static_cast<const float*>(vectors_.back().data());
}

Result<const float*> Weights::optional_vector(const std::string& name, uint64_t n) {
  if (source_.find(name) == nullptr) return static_cast<const float*>(nullptr);
  return vector(name, n);
}

Status Weights::finish(const nn::Backend& backend, const LoadOptions& options) {
  GYRE_TRY(source_.audit());
  if (!backend.packs()) return check_scales(backend);
  const std::string path = cache_path(options);
  if (!path.empty() && map_cache(path)) return {};
  // An overcommitting system grants more than it has and kills the process later.
  if (const uint64_t available = os::available_memory_bytes(); available != 0 && total_ > available)
    return fail(ErrorCode::out_of_memory, "packed weights", std::to_string(total_) + " bytes",
                "at most the " + std::to_string(available) + " bytes of available memory");
  GYRE_ASSIGN(arena_, os::Pages::make(sizeof(CacheHeader) + total_, os::Pages::Huge::yes,
                                      "packed weights"));
  std::byte* const panels = arena_.data() + sizeof(CacheHeader);
  GYRE_TRY(pack(backend, options, panels));
  place(panels);
  return path.empty() ? Status{} : write_cache(path);
}

Status Weights::check_scales(const nn::Backend& backend) {
  std::vector<Status> found(matrices_.size());
  backend.pool->run(matrices_.size(), [&](size_t m, int) {
    found[m] = quant::check_block_scales(matrices_[m].file, names_[m]);
  });
  for (Status& status : found) GYRE_TRY(std::move(status));
  return {};
}

Status Weights::pack(const nn::Backend& backend, const LoadOptions& options, std::byte* out) {
  for (size_t m = 0; m < matrices_.size(); ++m) {
    const TensorView& file = matrices_[m].file;
    const size_t panel = kernels::panel_bytes(file.dtype, file.cols);
    const uint32_t panels = kernels::panel_count(file.rows);
    const uint32_t group = static_cast<uint32_t>(
        std::clamp<size_t>(kPackItem / std::max<size_t>(panel, 1), 1, panels));
    std::mutex mutex;
    Status first_bad;
    backend.pool->run((panels + group - 1) / group, [&](size_t item, int) {
      const uint32_t begin = static_cast<uint32_t>(item) * group;
      const uint32_t end = std::min(panels, begin + group);
      TensorView rows = file;  // the audit reads these rows just before they are packed
      rows.data += size_t{begin} * kernels::kPanelRows * row_bytes(file.dtype, file.cols);
      rows.rows = std::min(file.rows, end * kernels::kPanelRows) - begin * kernels::kPanelRows;
      Status good = quant::check_block_scales(rows, names_[m]);
      if (!good) {
        std::lock_guard lock(mutex);
        if (first_bad) first_bad = std::move(good);
        return;
      }
      kernels::pack_panels(file, begin, end, out + offsets_[m] + begin * panel);
      source_.release(rows);  // at once: a large table must not be in memory twice
    });
    GYRE_TRY(std::move(first_bad));
    source_.release(file);
    if (options.progress && !options.progress(offsets_[m] + panel * panels, total_))
      return fail(ErrorCode::cancelled, "loading");
  }
  return {};
}

void Weights::place(const std::byte* panels) {
  for (size_t m = 0; m < matrices_.size(); ++m) matrices_[m].panels = panels + offsets_[m];
}

std::string Weights::cache_path(const LoadOptions& options) const {
  if (options.pack_cache.empty()) return {};
  const std::string identity = source_.identity();
  char name[64];
  std::snprintf(name, sizeof name, "/%016llx-v%u.panels",
                static_cast<unsigned long long>(XXH3_64bits(identity.data(), identity.size())),
                kernels::kPanelLayoutVersion);
  return options.pack_cache + name;
}

bool Weights::map_cache(const std::string& path) {
  auto file = os::MappedFile::open(path);
  if (!file || file->bytes().size() != sizeof(CacheHeader) + total_) return false;
  const auto panels = file->bytes().subspan(sizeof(CacheHeader));
  const CacheHeader expected = header_for(source_.identity(), panels);
  if (std::memcmp(file->bytes().data(), &expected, sizeof expected) != 0) return false;
  cache_ = std::move(*file);
  place(cache_.bytes().data() + sizeof(CacheHeader));
  for (const kernels::Matrix& matrix : matrices_) source_.release(matrix.file);
  return from_cache_ = true;
}

// The arena begins with room for the header, so that the file is written in one piece.
Status Weights::write_cache(const std::string& path) {
  GYRE_TRY(os::make_dirs(path.substr(0, path.rfind('/'))));
  const CacheHeader header =
      header_for(source_.identity(), {arena_.data() + sizeof(CacheHeader), total_});
  std::memcpy(arena_.data(), &header, sizeof header);
  return os::write_file_atomically(path, {arena_.data(), sizeof header + total_});
}

std::vector<std::string> pack_cache_files(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (entry.path().extension() == ".panels") out.push_back(entry.path().string());
  return out;
}

}  // namespace gyre::models
