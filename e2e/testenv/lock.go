package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// lockPoll is how often lockFile tries again while another process has the lock.
const lockPoll = 200 * time.Millisecond

// lockFile takes an exclusive lock on the file, which it creates when it is
// missing, and returns what releases it. It blocks while another process has
// the lock, says so once on out, and gives up when ctx ends. The kernel
// releases the lock of a process that dies.
func lockFile(ctx context.Context, path string, out io.Writer) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	told := false
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
		}
		if !told {
			told = true
			_, _ = fmt.Fprintln(out, "another process builds the control plane already: waiting for it")
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for another build of the control plane (lock %s): %w", path, ctx.Err()), f.Close())
		case <-time.After(lockPoll):
		}
	}
}
