// The commands of the gyre program. Each takes the words behind its name and returns an exit status
// or the error that main() prints.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace gyre::apps {

using Arguments = std::vector<std::string>;

Result<int> run_generate(const Arguments& arguments);
Result<int> run_tokenize(const Arguments& arguments);
Result<int> run_detokenize(const Arguments& arguments);
Result<int> run_score(const Arguments& arguments);
Result<int> run_verify(const Arguments& arguments);
Result<int> run_bench(const Arguments& arguments);
Result<int> run_inspect(const Arguments& arguments);

}  // namespace gyre::apps
