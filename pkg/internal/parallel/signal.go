package parallel

// Signal wakes one goroutine, which receives from it. It holds at most one token, so that many signals before that are one.
type Signal chan struct{}

// NewSignal returns a Signal without a token.
func NewSignal() Signal { return make(Signal, 1) }

// Send puts a token into the Signal, unless it has one. It returns at once.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}
