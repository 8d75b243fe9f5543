/* Status numbers, the same in every language. Generated from the table in abi/errors.py; a number never changes. */
#ifndef INTEROP_STATUS_H
#define INTEROP_STATUS_H

typedef enum interop_status {
    INTEROP_OK = 0,
    INTEROP_ERROR_ARGUMENT_TYPE = 1,
    INTEROP_ERROR_ARGUMENT_RANGE = 2,
    INTEROP_ERROR_CONTRACT = 3,
    INTEROP_ERROR_DEVICE = 4,
    INTEROP_ERROR_SYMBOL_NOT_FOUND = 5,
    INTEROP_ERROR_ABI_MISMATCH = 6,
    INTEROP_ERROR_INCOMPATIBLE = 7,
    INTEROP_ERROR_BUNDLE = 8,
    INTEROP_ERROR_UNSUPPORTED = 9,
    INTEROP_ERROR_OUT_OF_MEMORY = 10,
    INTEROP_ERROR_EXECUTION = 11,
    INTEROP_ERROR_INTERNAL = 12
} interop_status;

/* What a status says in general; the failing library's last_error() says it in particular. */
static inline const char *interop_status_text(interop_status status)
{
    switch (status) {
    case INTEROP_OK:
        return "no error";
    case INTEROP_ERROR_ARGUMENT_TYPE:
        return "an argument has the wrong type";
    case INTEROP_ERROR_ARGUMENT_RANGE:
        return "an argument is out of range";
    case INTEROP_ERROR_CONTRACT:
        return "a precondition of the kernel does not hold";
    case INTEROP_ERROR_DEVICE:
        return "the device or its driver reported an error";
    case INTEROP_ERROR_SYMBOL_NOT_FOUND:
        return "the image has no kernel of that name";
    case INTEROP_ERROR_ABI_MISMATCH:
        return "the description does not match the image";
    case INTEROP_ERROR_INCOMPATIBLE:
        return "no image runs on this device";
    case INTEROP_ERROR_BUNDLE:
        return "the bundle is missing, damaged or of an unknown version";
    case INTEROP_ERROR_UNSUPPORTED:
        return "not supported";
    case INTEROP_ERROR_OUT_OF_MEMORY:
        return "out of memory";
    case INTEROP_ERROR_EXECUTION:
        return "the kernel stopped with an error";
    case INTEROP_ERROR_INTERNAL:
        return "internal error";
    }
    return "a status of a newer version";
}

#endif
