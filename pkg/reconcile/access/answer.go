package access

import (
	"context"
	"time"
)

// lastAnswer is how long a request waits for its answer after the operator began to end. The
// operator waits for reconciles a little longer.
const lastAnswer = 1500 * time.Millisecond

// AwaitAnswer sends a request whose effect could not be reported later if its answer is lost: if ctx
// ends meanwhile, it waits for the answer for lastAnswer at most. It sends only before ctx has ended.
func AwaitAnswer(ctx context.Context, send func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	answered, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastAnswer, cancel) })()
	return send(answered)
}
