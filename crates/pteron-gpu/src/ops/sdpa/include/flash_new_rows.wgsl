// Queries, new keys and new values of a sequence, read from the inputs. Its tokens start at row `first_token()` of the inputs.

// A vector of a new token's key, with rotary embedding as in the cache.
fn new_key(token: u32, head: u32, lane: u32, position: u32) -> vec4<f32> {
    let row = first_token() + token;
    let start = (row * params.heads + head) * HEAD_VECTORS;
    let key = k[start + lane];
    var partner = key;
    if ROTATED == 2u {
        partner = k[start + partner_lane(lane)];
    }
    return rotate_lane(key, partner, lane, row, position + token);
}

// A vector of a query, with rotary embedding.
fn rotated_query(head: u32, row: u32, lane: u32, position: u32) -> vec4<f32> {
    let start = query_at(head, row);
    let query = q[start + lane];
    var partner = query;
    if ROTATED == 2u {
        partner = q[start + partner_lane(lane)];
    }
    return rotate_lane(query, partner, lane, row / params.group, row_position(row, position));
}

fn new_value(token: u32, head: u32, lane: u32) -> vec4<f32> {
    return v[((first_token() + token) * params.heads + head) * HEAD_VECTORS + lane];
}
