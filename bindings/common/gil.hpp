// Letting go of the GIL and taking it, for code that knows no Python otherwise. Also holds while the interpreter ends:
// a thread that cannot have the GIL any more is parked for ever (border/gil.hpp says why).
#pragma once

namespace dgo {

// For code that holds the GIL. The thread that finalizes keeps it: no other may have it any more.
class ReleaseGil {
public:
    ReleaseGil() : ReleaseGil(true) {}
    ~ReleaseGil();
    ReleaseGil(const ReleaseGil&) = delete;
    ReleaseGil& operator=(const ReleaseGil&) = delete;

protected:
    explicit ReleaseGil(bool held);

private:
    void* state_;  // a PyThreadState, or null: nothing to take back
};

// For code that runs with or without the GIL (destructors).
class ReleaseGilIfHeld : public ReleaseGil {
public:
    ReleaseGilIfHeld();
};

// For code of any thread that can work without the GIL: true if the thread has it now, false if no thread can have it.
class TryAcquireGil {
public:
    TryAcquireGil();
    ~TryAcquireGil();
    TryAcquireGil(const TryAcquireGil&) = delete;
    TryAcquireGil& operator=(const TryAcquireGil&) = delete;

    explicit operator bool() const { return got_; }

private:
    bool got_, taken_ = false;
    int state_ = 0;  // a PyGILState_STATE
};

// For code that needs the GIL (callbacks).
class AcquireGil : public TryAcquireGil {
public:
    AcquireGil();
};

}  // namespace dgo
