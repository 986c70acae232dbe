package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// waitOK asks a URL until it answers 200. It gives up after the timeout, when
// ctx ends, and when gone is closed: no process is there to answer any more. A nil
// gone is never closed.
func waitOK(ctx context.Context, c *http.Client, url string, timeout time.Duration, gone <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var last error
	for {
		err := getOK(ctx, c, url)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // that a request was given up says less
			last = err
		}
		select {
		case <-gone:
			return errors.New("the process ended before it was ready")
		case <-ctx.Done():
			return fmt.Errorf("not ready within %s: %w", timeout, last)
		case <-time.After(poll):
		}
	}
}

// getOK returns nil when the URL answers 200, and else what it answered.
func getOK(ctx context.Context, c *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", url, resp.Status, body)
	}
	return nil
}
