// One call of multiply(): its fixed facts, its range, and where outputs go. Included in a target
// region.

// y = (dot + bias) (+ y) of one panel and column.
GYRE_WORD void write_output(const LinearJob& job, uint32_t panel, uint32_t column, F value) {
  const uint32_t row = panel * kPanelRows;
  const uint32_t n = std::min(kPanelRows, job.matrix->rows() - row);
  float* y = job.y + column * job.ldy + row;
  if (n == kPanelRows) {
    if (job.bias != nullptr) value = value + load_f(job.bias + row);
    if (job.add_to_y) value = value + load_f(y);
    return store(y, value);
  }
  if (job.bias != nullptr) value = value + load_first(job.bias + row, n);
  if (job.add_to_y) value = value + load_first(y, n);
  store_first(y, value, n);
}

struct Range {
  uint32_t panel_begin, panel_end, column_begin, columns;
};

// One call's fixed facts.
struct Call {
  const LinearJob& job;
  const Activations& x;
  Scratch& scratch;
  const uint8_t* panels;
  size_t panel_bytes;
  uint32_t blocks;  // of K

  const uint8_t* panel(uint32_t p) const { return panels + p * panel_bytes; }
};
