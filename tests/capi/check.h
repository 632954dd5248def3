/* Macros and helpers of the tests of the C interface. n_failed counts the checks that do not hold. */
#ifndef TSR_TESTS_CAPI_CHECK_H
#define TSR_TESTS_CAPI_CHECK_H

#include <stdio.h>
#include <string.h>

#include "include/tessera.h"

static int n_failed = 0;

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            printf("%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
            n_failed++;                                                     \
        }                                                                   \
    } while (0)

#define CHECK_OK(call)                                                            \
    do {                                                                          \
        tsr_error check_error;                                                    \
        tsr_error* error = &check_error;                                          \
        if ((call) != TSR_OK) {                                                   \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, error->message); \
            n_failed++;                                                           \
        }                                                                         \
    } while (0)

/* The call is refused with this status and a message that holds the text. */
#define CHECK_FAILS(expected_status, text, call)                                                     \
    do {                                                                                             \
        tsr_error check_error;                                                                       \
        tsr_error* error = &check_error;                                                             \
        tsr_status found = (call);                                                                   \
        if (found != (expected_status) || error->status != found || !strstr(error->message, text)) { \
            printf("%s:%d: %s: status %d, message '%s'\n", __FILE__, __LINE__, #call, (int)found,    \
                   error->message);                                                                  \
            n_failed++;                                                                              \
        }                                                                                            \
    } while (0)

/* A function that takes a NULL where it needs a pointer says which. */
#define CHECK_NULL(name, call) CHECK_FAILS(TSR_INVALID_ARGUMENT, name, call)

static int report_failures(void) {
    if (n_failed) printf("%d failed\n", n_failed);
    return n_failed != 0;
}

#endif
