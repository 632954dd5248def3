// The C interface: versions, lists of names, log and texts.
#include <cstdlib>

#include "common/log.h"
#include "src/capi/guard.h"
#include "src/capi/handles.h"
#include "src/engine/name_tables.h"

namespace tessera::capi {

Result<void> write_text(std::string_view from, tsr_text* to) {
    TSR_TRY_VOID(need(to, "text"));
    *to = {nullptr, 0};
    auto* data = static_cast<char*>(std::malloc(from.size() + 1));
    if (!data) return fail(ErrorCode::OutOfMemory, "no memory for a text of %zu bytes", from.size());
    std::memcpy(data, from.data(), from.size());
    data[from.size()] = '\0';
    *to = {data, from.size()};
    return {};
}

namespace {

using engine::NameTable;

static_assert(static_cast<int>(NameTable::Samplers) == TSR_LIST_SAMPLERS, "the two lists are one");

constexpr std::string_view kFeatures[] = {"chat",   "convert", "embedding_requests", "embeddings", "grammar",
                                          "infill", "plan",    "reasoning_budget",   "tools"};

Result<std::span<const std::string_view>> names_of(tsr_list list) {
    if (list == TSR_LIST_FEATURES) return std::span<const std::string_view>(kFeatures);
    TSR_TRY_VOID(engine::check_range("list", list, 0, TSR_LIST_FEATURES));
    return std::span<const std::string_view>(engine::names_in(static_cast<NameTable>(list)));
}

}  // namespace

}  // namespace tessera::capi

using namespace tessera;
using namespace tessera::capi;

const char* tsr_status_name(tsr_status status) {
    switch (status) {
        case TSR_OK:
            return "ok";
        case TSR_INVALID_ARGUMENT:
            return error_code_name(ErrorCode::InvalidArgument);
        case TSR_NOT_FOUND:
            return error_code_name(ErrorCode::NotFound);
        case TSR_MALFORMED:
            return error_code_name(ErrorCode::Malformed);
        case TSR_UNSUPPORTED:
            return error_code_name(ErrorCode::Unsupported);
        case TSR_OUT_OF_MEMORY:
            return error_code_name(ErrorCode::OutOfMemory);
        case TSR_IO:
            return error_code_name(ErrorCode::Io);
        case TSR_CANCELLED:
            return error_code_name(ErrorCode::Cancelled);
        case TSR_BUSY:
            return error_code_name(ErrorCode::Busy);
        case TSR_INTERNAL:
            return error_code_name(ErrorCode::Internal);
    }
    return "unknown status";
}

const char* tsr_version(void) { return TSR_VERSION; }

int tsr_abi_version(void) { return TSR_ABI_VERSION; }

int tsr_has_feature(const char* name) {
    return name && std::find(std::begin(kFeatures), std::end(kFeatures), name) != std::end(kFeatures);
}

tsr_status tsr_list_name(tsr_list list, size_t i, const char** name, tsr_error* error) {
    if (name) *name = nullptr;
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(name, "name"));
        TSR_TRY(const auto names, names_of(list));
        if (i >= names.size())
            return fail(ErrorCode::NotFound, "name: expected 0 to %zu, found %zu", names.size() - 1, i);
        *name = names[i].data();
        return {};
    });
}

void tsr_set_log(tsr_log_fn log, void* user) {
    guarded(nullptr, [&]() -> Result<void> {
        if (!log) {
            log::set_sink({});
            return {};
        }
        log::set_sink([log, user](log::Level level, std::string_view message) {
            if (level == log::Level::Debug) return;
            log(user, static_cast<int>(log::Level::Error) - static_cast<int>(level),
                std::string(message).c_str());
        });
        return {};
    });
}

void tsr_text_free(tsr_text* text) {
    if (!text) return;
    std::free(text->data);
    *text = {nullptr, 0};
}
