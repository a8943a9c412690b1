package zk

import (
	"errors"
	"fmt"

	zooid "github.com/zooid-project/zooid/zk"
)

// A PathVersionRequest has the path of a znode and the version that its data must have.
type PathVersionRequest struct {
	Path    string
	Version int32 // -1 for any
}

// A CreateRequest creates a znode in a Multi.
type CreateRequest struct {
	Path  string
	Data  []byte
	Acl   []ACL
	Flags int32 // not those with a TTL
}

// A CreateTTLRequest has the fields of CreateTTL's request. Multi doesn't accept it.
type CreateTTLRequest struct {
	Path  string
	Data  []byte
	Acl   []ACL
	Flags int32
	Ttl   int64 // ms
}

// A SetDataRequest replaces a znode's data in a Multi.
type SetDataRequest struct {
	Path    string
	Data    []byte
	Version int32 // -1 for any
}

// A DeleteRequest deletes a znode in a Multi.
type DeleteRequest PathVersionRequest

// A CheckVersionRequest makes a Multi fail unless a znode's data have the version.
type CheckVersionRequest PathVersionRequest

// A MultiResponse is the result of one operation of a Multi.
type MultiResponse struct {
	Stat   *Stat  // of SetDataRequest; otherwise nil
	String string // the path, of CreateRequest
	Error  error
}

// Multi applies all operations or none. An operation is a *CreateRequest, *SetDataRequest, *DeleteRequest or
// *CheckVersionRequest. If one is refused, Multi returns its error, and the first response with an Error is the one of
// that operation. After other errors there are no responses.
func (c *Conn) Multi(ops ...interface{}) ([]MultiResponse, error) {
	theirs := make([]zooid.MultiOp, len(ops))
	for i, op := range ops {
		switch o := op.(type) {
		case *CreateRequest:
			theirs[i] = zooid.CreateOp(o.Path, o.Data, zooid.CreateMode(o.Flags), aclOf(o.Acl))
		case *SetDataRequest:
			theirs[i] = zooid.SetOp(o.Path, o.Data, o.Version)
		case *DeleteRequest:
			theirs[i] = zooid.DeleteOp(o.Path, o.Version)
		case *CheckVersionRequest:
			theirs[i] = zooid.CheckOp(o.Path, o.Version)
		default:
			return nil, fmt.Errorf("unknown operation type %T", op)
		}
	}
	client, ctx, err := c.current()
	if err != nil {
		return nil, err
	}
	results, err := client.Multi(ctx, theirs...)
	if failed, ok := errors.AsType[*zooid.MultiError](err); ok {
		return failedMulti(failed, len(ops)), errorOfCode(failed.Code)
	}
	if err != nil {
		return nil, errorOf(err)
	}
	responses := make([]MultiResponse, len(results))
	for i, r := range results {
		switch ops[i].(type) {
		case *CreateRequest:
			responses[i].String = r.Path
		case *SetDataRequest:
			responses[i].Stat = statOf(r.Stat, nil)
		}
	}
	return responses, nil
}

// failedMulti returns the responses of a failed multi in the servers' form: no error for the operations before the
// failed one, and an inconsistency for those after it.
func failedMulti(failed *zooid.MultiError, n int) []MultiResponse {
	responses := make([]MultiResponse, n)
	responses[failed.Index].Error = errorOfCode(failed.Code)
	for i := failed.Index + 1; i < n; i++ {
		responses[i].Error = errorOfCode(zooid.ErrRuntimeInconsistency)
	}
	return responses
}
