package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The causes an operation fails for that a caller may want to tell apart with
// errors.Is.
var (
	// ErrChanged: the object is no longer as PutOptions.IfModified says.
	ErrChanged = errors.New("changed meanwhile")
	// ErrFull: the store has reached its quota and takes no writes but deletes.
	ErrFull = errors.New("the store is full (NOSPACE alarm): delete objects and defragment it, or raise its quota")
	// ErrUnavailable: the store cannot be reached or did not answer in time. A
	// write may have happened nevertheless.
	ErrUnavailable = errors.New("the store is not available")
	// ErrTooLarge: the store refuses an object of this size.
	ErrTooLarge = errors.New("the object is larger than the store admits")
)

var errClosed = errors.New("closed")

// fail says which operation failed where. The user and the password are in
// neither the endpoint nor the texts of the client.
// errGone is the end of a store that does not come back.
var errGone = errors.New("the store has failed; restart the gateway when its cause is mended")

func (s *Store) fail(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("etcd %s: %s %s: %w", s.endpoint, op, key, classify(err))
}

func classify(err error) error {
	var known rpctypes.EtcdError
	code := status.Code(err)
	ofStore := errors.As(err, &known)
	if ofStore {
		code = known.Code()
	}
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return ErrFull
	case errors.Is(err, rpctypes.ErrRequestTooLarge), !ofStore && code == codes.ResourceExhausted:
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case errors.Is(err, errGone):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errClosed),
		code == codes.Unavailable, code == codes.DeadlineExceeded:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}
