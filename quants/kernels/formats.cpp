// Calls from the ISA units, which include no std headers, to the registry's reference decoders and to the
// codebooks, both in quants/ref. Assumes a weight type: the kernel tables hold entries for no others.
#include "quants/kernels/formats.h"

#include "quants/kernels/codebooks.h"
#include "quants/ref/codebooks.h"
#include "quants/types.h"

namespace tessera::kernels {

void dequantize_reference(uint32_t type_id, const void* src, float* dst, int64_t n) {
    type_info(static_cast<Type>(type_id)).dequantize(src, dst, n);
}

// Initialized before any code runs, as the tables are.
constinit const int8_t* const kWordsIq2Xxs = quants::kGridIq2Xxs[0].data();
constinit const int8_t* const kWordsIq2Xs = quants::kGridIq2Xs[0].data();
constinit const int8_t* const kWordsIq2S = quants::kGridIq2S[0].data();
constinit const int8_t* const kWordsIq3Xxs = quants::kGridIq3Xxs[0].data();
constinit const int8_t* const kWordsIq3S = quants::kGridIq3S[0].data();
constinit const int8_t* const kWordsIq1 = quants::kGridIq1[0].data();

}  // namespace tessera::kernels
