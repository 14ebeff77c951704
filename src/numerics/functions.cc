#include "numerics/functions.h"

#include "numerics/scalar_vocabulary.h"

namespace gyre::numerics {
namespace scalar {
#include "numerics/functions.inl"
}  // namespace scalar

float exp(float x) {
  return scalar::exp(scalar::Float{x}).value;
}
float log(float x) {
  return scalar::log(scalar::Float{x}).value;
}
float tanh(float x) {
  return scalar::tanh(scalar::Float{x}).value;
}
float sigmoid(float x) {
  return scalar::sigmoid(scalar::Float{x}).value;
}
float softplus(float x) {
  return scalar::softplus(scalar::Float{x}).value;
}
float silu(float x) {
  return scalar::silu(scalar::Float{x}).value;
}
float gelu(float x) {
  return scalar::gelu(scalar::Float{x}).value;
}
float gelu_erf(float x) {
  return scalar::gelu_erf(scalar::Float{x}).value;
}
float gelu_quick(float x) {
  return scalar::gelu_quick(scalar::Float{x}).value;
}
float sin(float x) {
  return scalar::sin(scalar::Float{x}).value;
}
float cos(float x) {
  return scalar::cos(scalar::Float{x}).value;
}

}  // namespace gyre::numerics
